# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends an instance whose model takes longer than its config says it ever should.

The parameter ``execution_timeout_us`` of a config is a promise of the model's author; without it an
execution may take as long as it likes. The watchdog looks now and then, on a thread of its own, at
what the executor notes anyway, so that requests pay nothing for it.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from backends.api.model_config import ModelConfig
from deployments.instance.process_load import Activity
from deployments.scheduling.parameters import whole_number

_log = logging.getLogger(__name__)

EXECUTION_TIMEOUT_US: Final = "execution_timeout_us"

_NS_PER_US: Final = 1000
_US_PER_S: Final = 1e6
# Looks per timeout, so that an execution is ended at most an eighth of it late.
_LOOKS: Final = 8
_SHORTEST_S: Final = 0.005
_LONGEST_S: Final = 0.5


def execution_timeout_us(config: ModelConfig) -> int:
    """Return how long an execution of the model may take; 0 means for ever.

    Raises:
        InvalidArgumentError: The parameter is not a number.
    """
    return whole_number(config, EXECUTION_TIMEOUT_US)


class Watchdog:
    """Watches the executions of one instance.

    Args:
        model_name: For the reason.
        timeout_us: How long an execution may take, and how long a decoupled model may be silent.
        activity: Returns what the executor does now.
        on_hang: Called once, on the watchdog's thread, with the reason.
    """

    def __init__(
        self,
        model_name: str,
        timeout_us: int,
        activity: Callable[[], Activity],
        on_hang: Callable[[str], object],
    ) -> None:
        self._model_name = model_name
        self._timeout_us = timeout_us
        self._activity = activity
        self._on_hang = on_hang
        self._worker_thread = threading.Thread(
            target=self._watch, name="manta-watchdog", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._worker_thread.start()

    def look(self) -> bool:
        """Look once; report a hang and return whether there is one."""
        if self._activity().quiet_for_ns <= self._timeout_us * _NS_PER_US:
            return False
        _log.error(
            "model '%s' hangs; its process's threads are at:\n%s", self._model_name, _stacks()
        )
        self._on_hang(
            f"execution of model '{self._model_name}' took longer than "
            f"{EXECUTION_TIMEOUT_US}={self._timeout_us}"
        )
        return True

    def _watch(self) -> None:
        period_s = self._timeout_us / _US_PER_S / _LOOKS
        period_s = min(max(period_s, _SHORTEST_S), _LONGEST_S)
        while not self.look():
            time.sleep(period_s)


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - documented
    )
