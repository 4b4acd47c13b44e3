# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Says where a load that takes long is: after 10 s, and then every 30 s."""

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

_log = logging.getLogger(__name__)

_FIRST_S: Final = 10.0
_NEXT_S: Final = 30.0


class LoadWatch:
    """Watches the load that the thread which makes it is about to begin; use with ``with``.

    Args:
        name: The instance.
        model_dir: Local path of the model's directory.
        wait: Waits so many seconds; tells whether the load ended meanwhile.
    """

    def __init__(
        self, name: str, model_dir: str, wait: Callable[[float], bool] | None = None
    ) -> None:
        self._name = name
        self._model_dir = model_dir
        self._ended = threading.Event()
        self._wait = wait or self._ended.wait
        self._loading = threading.get_ident()

    def __enter__(self) -> None:
        threading.Thread(target=self.run, name="manta-load-watch", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def run(self) -> None:
        """Log until the load has ended."""
        passed_s, next_s = 0.0, _FIRST_S
        while not self._wait(next_s):
            passed_s, next_s = passed_s + next_s, _NEXT_S
            frame = sys._current_frames().get(self._loading)  # noqa: SLF001 - there is no other way
            _log.warning(
                "instance %s is still loading after %g s: %s",
                self._name,
                passed_s,
                "" if frame is None else place_of(frame, self._model_dir),
            )


def place_of(frame: FrameType, model_dir: str) -> str:
    """Return where a thread is: the innermost line of the model, else of anything.

    Args:
        frame: The thread's innermost frame.
        model_dir: Path of the model's directory.
    """
    innermost, each = frame, frame
    within = str(Path(model_dir, ""))
    while not each.f_code.co_filename.startswith(f"{within}/"):
        if each.f_back is None:
            return f"{innermost.f_code.co_filename}:{innermost.f_lineno}"
        each = each.f_back
    path = Path(each.f_code.co_filename).relative_to(within)
    return f"{path.name}:{each.f_lineno} in {each.f_code.co_name}"
