# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A controller of rollouts that remembers what it was asked."""

from typing import Any

from backends.api.errors import TritonError
from deployments.contracts.control import RolloutAction


class FakeRollouts:
    """Implements `deployments.contracts.control.RolloutControl`.

    Attributes:
        asked: Model, action and document of each call.
        error: Raised by each call, if set.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, RolloutAction, dict[str, Any]]] = []
        self.error: TritonError | None = None

    async def rollout(
        self, model_name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """See `RolloutControl.rollout`."""
        self.asked.append((model_name, action, document))
        if self.error is not None:
            raise self.error
        return {"model": model_name, "phase": "progressing"}
