# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rollouts of models as one caller may see and change them."""

from typing import Any

from deployments.access.contracts import Role
from deployments.contracts.control import RolloutAction, RolloutControl
from deployments.data_plane.view_checks import Checks


class CallerRollouts:
    """Implements `RolloutControl` for one caller.

    A rollout may be looked at by who may ask about the model or control it, and changed by who may
    control it. It raises PermissionDeniedError, or UnauthenticatedError, else.

    Args:
        rollouts: Those of the process.
        checks: Of the caller.
    """

    def __init__(self, rollouts: RolloutControl, checks: Checks) -> None:
        self._rollouts = rollouts
        self._checks = checks

    async def rollout(
        self, model_name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """Do something about the rollout of a model."""
        is_look = action is RolloutAction.GET
        if not (is_look and self._checks.may(Role.METADATA, model_name)):
            what = f"rollout {action.value}"
            self._checks.require(Role.CONTROL, model_name, what, is_noted=not is_look)
        return await self._rollouts.rollout(model_name, action, document)
