# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fork server imports, and what must not have happened when it forks.

Ray draws the identifiers of objects from a generator that is seeded at its first use, and
decorating an actor's class uses it. Forked processes would go on from the same state and give two
objects one identifier. So such classes get theirs from the kernel, and two trial forks show that it
was enough.
"""

import contextlib
import gc
import importlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

import setproctitle

from backends.compiled_form import LIBRARY, PACKAGES

RAY: Final = (
    "ray",
    "ray.actor",
    "ray._private.workers.default_worker",
    # What a worker imports with the first object that it reads.
    "ray._common.pydantic_compat",
    "pydantic.v1.fields",
    "ray._private.arrow_serialization",
)
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
# Manta's own packages, and the library of their compiled form.
OWN: Final = PACKAGES | {LIBRARY}


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


def prepared(names: Iterable[str]) -> None:
    """Import modules, and make sure that this process can be forked; otherwise it ends."""
    with identifiers_from_kernel():
        for failed in import_all(names):
            say(failed)
    gc.collect()
    gc.freeze()
    why_not = impediment()
    if why_not:
        say(f"{why_not}: all processes are started plainly")
        sys.exit(1)


def others_of(names: Iterable[str]) -> list[str]:
    """Return what modules import that is not Manta's, found out in another process."""
    end, start = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with identifiers_from_kernel():
                import_all(names)
            with os.fdopen(start, "w") as found:
                found.write("\n".join(filter(_is_anothers, list(sys.modules))))
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end) as told:
        found_names = told.read().splitlines()
    os.waitpid(pid, 0)
    return found_names


def _is_anothers(name: str) -> bool:
    """Tell whether a module that is there can be imported by its name and is not Manta's."""
    spec = getattr(sys.modules[name], "__spec__", None)
    return name.partition(".")[0] not in OWN and spec is not None and spec.name == name


def forget_own() -> None:
    """Have Manta's modules imported anew: not by those that run, whose own are bound already."""
    for name in [each for each in sys.modules if each.partition(".")[0] in OWN]:
        del sys.modules[name]


def say(text: str) -> None:
    """Write a line among the fork server's errors."""
    sys.stderr.write(f"fork server: {text}\n")
    sys.stderr.flush()


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
