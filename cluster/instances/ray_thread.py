# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leaves the main thread of a Ray worker to models: Ray's loop runs on a thread of its own.

Imported in workers before their loop begins. Ray's loop wants one thread for good, not the main
one in particular. What does want that is its look for signals, 100 times a second: SIGTERM, which
is handled here, and the rest of an instance (`deployments.instance.rest`), which takes place in
another call of that look.
"""

import os
import sys
import threading
from typing import Any, Final

from ray import _raylet
from ray._private import utils
from ray._private.worker import Worker

from deployments.instance.main_thread import MAIN

_NAME: Final = "ray-tasks"
_SIGTERM: Final = "The process receives a SIGTERM."
# What the call that the main thread is in gets, when Ray has ended.
_END_TIMEOUT_S: Final = 1.0


def main_loop(worker: Any) -> None:
    """Run in place of Ray's: its loop beside, and what models want here. Does not return."""

    def ended(_number: int, _frame: object) -> None:
        worker.core_worker.drain_and_exit_worker("system", _SIGTERM)

    utils.set_sigterm_handler(ended)
    MAIN.offer()
    threading.Thread(target=_run, args=(worker,), name=_NAME, daemon=True).start()
    MAIN.serve()
    sys.exit(0)


def _run(worker: Any) -> None:
    worker.core_worker.run_task_loop()
    if not MAIN.end(_END_TIMEOUT_S):
        # It is in a model that does not return.
        os._exit(0)


class Look:
    """The module `sys` as Ray's look for signals sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)

    def is_finalizing(self) -> bool:
        """Rest first, where there is time for it."""
        rest = MAIN.rest
        if rest is not None and threading.current_thread().name == _NAME:
            rest()
        return sys.is_finalizing()


def install() -> None:
    """Have workers of this process, or forked from it, run their loop so."""
    patched: tuple[Any, Any] = (Worker, _raylet)
    patched[0].main_loop = main_loop
    patched[1].sys = Look()


install()
