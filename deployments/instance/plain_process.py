# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a Ray worker's process look like a plain Python process to a model.

In Triton a model finds an interpreter that nobody has used before it. Here Ray and this project
have: what they have set for themselves and no longer need is set back before a model is imported.

Triton: python_backend/src/pb_stub.cc, an embedded interpreter
"""

import asyncio
import contextlib
import functools
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from deployments.settings.log_lines import log_until_told

_log = logging.getLogger(__name__)

_WORKER: Final = "default_worker.py"
_MAIN: Final = "__main__"
_MARK: Final = ":actor_name:"


def become_plain(log_level: str, log_format: str = "default", title: str = "") -> None:
    """Set this process back, if it is a Ray worker's; its loops that run go on as they are.

    Args:
        log_level: Of the lines of this project.
        log_format: Their form; see `LogSettings.format`.
        title: Whom lines that it prints are said to be of; empty leaves the name of its class.
    """
    script = Path(sys.argv[0])
    if script.name != _WORKER:
        return
    for stream in (sys.stdout, sys.stderr) if title else ():
        # As Ray marks a file of an actor; it did so by the class, before the constructor ran.
        print(f"{_MARK}{title}", file=stream, flush=True)
    log_until_told(log_level, log_format)
    sys.argv[:] = [""]
    sys.path[:] = [each for each in sys.path if each != str(script.parent)]
    sys.excepthook = sys.__excepthook__
    # Ray makes loops of uvloop by name.
    asyncio.set_event_loop_policy(None)
    _replace_main()
    have_models_join(sys.modules.get("ray"))


def have_models_join(ray: Any) -> None:
    """Have a model that starts Ray join the one it runs on, which is not its to end.

    A process has one core worker of Ray, and this one's is the instance's: another makes Ray abort.

    Args:
        ray: The module; None where it is not imported.
    """
    if ray is None:
        return
    start = ray.init

    @functools.wraps(start)
    def init(*arguments: Any, **options: Any) -> Any:
        _log.warning("ray.init joins the Ray of the server; its options have no effect")
        with _same_sigterm():
            return start(*arguments, **{**options, "ignore_reinit_error": True})

    @functools.wraps(ray.shutdown)
    def shutdown(*_: Any, **__: Any) -> None:
        _log.warning("ray.shutdown has no effect: the server's Ray goes on")

    ray.init, ray.shutdown = init, shutdown


@contextlib.contextmanager
def _same_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM, which a driver of Ray sets: its own would exit in the model."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _replace_main() -> None:
    """Have a ``__main__`` without a file, as an embedded interpreter has.

    The one that there was runs on. Processes that multiprocessing spawns would import its file, and
    with it Ray.
    """
    main: Any = ModuleType(_MAIN)
    main.__builtins__ = sys.modules["builtins"]
    for name in (_MAIN, "__mp_main__"):
        if name in sys.modules:
            sys.modules[name] = main
