# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the controller of traces taken off a finite count, so that replicas share the count."""

import asyncio
import logging

from backends.api.errors import TritonError
from deployments.contracts.control import SettingsControl
from deployments.settings.server_settings import TraceUse

_log = logging.getLogger(__name__)


class TraceUseReports:
    """Sends the newest use of each settings; those that come meanwhile wait and merge.

    Args:
        control: The controller.
        replica: Name of this ingress.
    """

    def __init__(self, control: SettingsControl, replica: str) -> None:
        self._control = control
        self._replica = replica
        self._waiting: dict[str, TraceUse] = {}
        self._task: asyncio.Task[None] | None = None

    def report(self, model: str, used: int, revision: int) -> None:
        """Tell how many traces were taken under a revision of a model's settings."""
        self._waiting[model] = TraceUse(model, self._replica, used, revision)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting:
                _, use = self._waiting.popitem()
                await self._control.change_settings(use)
        except TritonError as error:
            # The count left here is right; other replicas may take more than their share.
            _log.warning("the controller did not hear of traces taken: %s", error.message)
        finally:
            self._task = None
