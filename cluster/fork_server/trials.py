# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Imports that are tried in a forked process before the fork server makes them itself.

A thread does not survive a fork, nor does what CUDA has begun, and neither can be undone: whoever
starts them is left to each process that needs it. Nor must a module crash the fork server, or draw
from the generator that forked processes would go on from.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cluster.fork_server.imported import (
    identifiers_from_kernel,
    impediment,
    import_all,
    prepared,
    say,
)

# No more than a pipe takes at once.
_REASON_BYTES: Final = 2000
# In front of what a trial says, which one that crashes does not.
_HAS_ENDED: Final = b"."
# What a process opens that begins with a GPU, of NVIDIA's or AMD's, by whichever library.
_GPUS: Final = ("/dev/nvidia", "/dev/kfd")
_DESCRIPTORS: Final = Path("/proc/self/fd")
_PR_SET_PDEATHSIG: Final = 1


class MoreImports:
    """Modules that processes are likely to need, imported while none is wanted.

    Each is tried in a forked process first, see above.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._waiting: list[str] = []
        self._trial: int | None = None

    def wanted(self, names: Sequence[str]) -> None:
        """Import modules soon."""
        new = [each for each in dict.fromkeys(names) if each not in self._known]
        self._known.update(new)
        self._waiting += new

    def look(self) -> None:
        """Try the next one, or import it."""
        if not self._waiting:
            return
        name = self._waiting[0]
        if self._trial is None:
            self._trial = begun_trial([name])
            return
        why_not = ended_trial(self._trial)
        if why_not is None:
            return
        self._trial = None
        del self._waiting[0]
        if why_not:
            say(f"each process imports {name} itself: {why_not}")
        else:
            prepared([name])

    def finish(self, within_s: float) -> None:
        """Import what is wanted; what has not been tried by then is left to `look`."""
        ends_s = time.monotonic() + within_s
        while self._waiting and (left_s := ends_s - time.monotonic()) > 0:
            if self._trial is not None:
                select.select([self._trial], [], [], left_s)
            self.look()


def begun_trial(names: Sequence[str]) -> int:
    """Import modules in a forked process; return a descriptor that `ended_trial` takes."""
    end, start = os.pipe()
    if not os.fork():
        why_not = "it cannot be tried"
        try:
            _end_with_parent()
            why_not = _tried(names)
        except BaseException as error:
            why_not = f"{type(error).__name__}: {error}"
        finally:
            os.write(start, _HAS_ENDED + why_not.encode(errors="replace")[:_REASON_BYTES])
            os._exit(0)
    os.close(start)
    return end


def ended_trial(end: int) -> str | None:
    """Say why modules must not be imported, empty if they may; None while it is being tried."""
    if not select.select([end], [], [], 0)[0]:
        return None
    with os.fdopen(end, "rb") as said:
        text = said.read()
    if not text:
        return "the process that imports it crashes"
    return text.removeprefix(_HAS_ENDED).decode(errors="replace")


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent: an import may take for ever."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tried(names: Sequence[str]) -> str:
    """Import modules here; say why a process that has done so must not be forked."""
    threads = _thread_count()
    with identifiers_from_kernel():
        failed = "; ".join(import_all(names))
    if _has_begun_cuda():
        return "CUDA is initialised by it"
    if opens_gpu():
        return "it opens a GPU"
    if failed:
        return failed
    return "threads run after it" if _thread_count() > threads else impediment()


def _thread_count() -> int:
    """Return how many threads this process has, of which Python may know nothing."""
    return len(list(Path("/proc/self/task").iterdir()))


def _has_begun_cuda() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def opens_gpu(descriptors: Path = _DESCRIPTORS) -> bool:
    """Tell whether this process has a GPU open, as it has once CUDA is initialised.

    Args:
        descriptors: Where links show what is open.
    """
    # The one that reads the folder is closed again.
    links = [each for each in descriptors.iterdir() if each.is_symlink()]
    return any(str(each.readlink()).startswith(_GPUS) for each in links)
