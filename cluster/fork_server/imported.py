# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fork server imports, and what must not have happened when it forks.

Ray draws the identifiers of objects from a generator that is seeded at its first use, and
decorating an actor's class uses it. Forked processes would go on from the same state and give two
objects one identifier. So such classes get theirs from the kernel, and two trial forks show that it
was enough.
"""

import contextlib
import importlib
import os
import select
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import setproctitle

RAY: Final = ("ray", "ray.actor", "ray._private.workers.default_worker")
# What instances import before they know their model, and for the most frequent kind of models.
INSTANCES: Final = (
    "deployments.instance.actor",
    "cluster.actors.arbiter",
    "cluster.actors.controller_client",
    "cluster.instances.node_files",
    "cluster.instances.ray_thread",
    "backends.python.backend",
)
WORKERS: Final = (
    *INSTANCES,
    "backends.onnxruntime.backend",
    "ray.serve._private.controller",
    "ray.serve._private.replica",
    "cluster.controller.boot",
    "cluster.controller.controller",
    "cluster.server.ingress_entry",
    "deployments.ingress",
)
# No more than a pipe takes at once.
_REASON_BYTES: Final = 2000
# In front of what a trial says, which one that crashes does not.
_HAS_ENDED: Final = b"."


@contextlib.contextmanager
def identifiers_from_kernel() -> Iterator[None]:
    """Have Ray draw no identifier from its generator while modules are imported."""
    actor: Any = importlib.import_module("ray.actor")
    own = actor.ActorClassID

    class FromKernel(own):  # type: ignore[misc, valid-type]
        @classmethod
        def from_random(cls) -> Any:
            return own(os.urandom(own.size()))

    actor.ActorClassID = FromKernel
    try:
        yield
    finally:
        actor.ActorClassID = own


def import_all(names: Iterable[str]) -> list[str]:
    """Import modules; return those that cannot be, each with the reason."""
    failed = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            failed.append(f"{name}: {error}")
    return failed


def begun_trial(names: Sequence[str]) -> int:
    """Import modules in a forked process; return a descriptor that `ended_trial` takes."""
    end, start = os.pipe()
    if not os.fork():
        why_not = "it cannot be tried"
        try:
            threads = _thread_count()
            with identifiers_from_kernel():
                why_not = "; ".join(import_all(names))
            if _thread_count() > threads:
                why_not = why_not or "threads run after it"
            if _has_begun_cuda():
                why_not = "CUDA is initialised by it"
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


def _thread_count() -> int:
    """Return how many threads this process has, of which Python may know nothing."""
    return len(list(Path("/proc/self/task").iterdir()))


def _has_begun_cuda() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def title_by_library() -> None:
    """Have Ray set the titles of processes by the library that knows this command line's place.

    Its own looks for that place when it is imported, which a forked process does not.
    """
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.setproctitle = setproctitle.setproctitle


def impediment() -> str:
    """Say why this process must not be forked; empty if it may be."""
    if threading.active_count() > 1:
        names = ", ".join(sorted(each.name for each in threading.enumerate()))
        return f"threads run: {names}"
    if _drawn_in_a_child() == _drawn_in_a_child():
        return "forked processes would draw the same identifiers"
    return ""


def _drawn_in_a_child() -> bytes:
    """Return the first identifier that a forked process draws."""
    ray: Any = importlib.import_module("ray")
    end, start = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(start, ray.ObjectRef.from_random().binary())
        os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as drawn:
        found = drawn.read()
    with contextlib.suppress(ChildProcessError):  # where ends of children are ignored
        os.waitpid(pid, 0)
    return found
