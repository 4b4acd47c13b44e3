# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How processes of this release come to its code on a cluster that may run another release.

Ray starts workers with its own interpreter and gives them, of the driver whose job they belong to,
the folder it was started in. Where they do not find this release so, they are told: the folder of
its packages, or the interpreter that it is installed for. Both have to be on every node.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayError

from backends.api.errors import UnavailableError
from cluster.actors.calls import cause_of
from cluster.release import Release, own_release

RuntimeEnv = Mapping[str, Any]

# What processes of the server import first; it fails here rather than in place of what serves.
_MODULES: Final = ("cluster.controller.controller", "deployments.instance.actor")
_TIMEOUT_S: Final = 120.0


def release_found() -> str:
    """Return the release that the process which calls this finds; its parts can be imported."""
    for name in _MODULES:
        import_module(name)
    return str(own_release())


def ask_worker(runtime_env: RuntimeEnv) -> str:
    """Have a worker of this job say which release it finds.

    Raises:
        RayError: It finds none, or does not start.
    """
    ask: Any = ray.remote(release_found).options(
        num_cpus=0, max_retries=0, runtime_env=dict(runtime_env) or None
    )
    answer: str = ray.get(ask.remote(), timeout=_TIMEOUT_S)
    return answer


def find_code(
    own: Release | None = None, ask: Callable[[RuntimeEnv], str] = ask_worker
) -> RuntimeEnv:
    """Return the environment in which workers find this release, in Ray's terms; mostly empty.

    Args:
        own: The release; None for that of this process.
        ask: Returns the release that a worker finds in an environment.

    Raises:
        UnavailableError: They find it in none; the message says what each found instead.
    """
    wanted = own or own_release()
    met = []
    for name, runtime_env in _candidates(wanted):
        try:
            found = ask(runtime_env)
        except (RayError, GetTimeoutError) as error:
            met.append(f"{name}: {cause_of(error)}")
            continue
        if found == str(wanted):
            return runtime_env
        met.append(f"{name}: release {found}")
    raise UnavailableError(
        f"workers of the cluster do not find release {wanted}; {'; '.join(met)}. Put its code at"
        f" {wanted.root} on every node, or submit the command as a job with a working directory"
    )


def _candidates(release: Release) -> Iterator[tuple[str, RuntimeEnv]]:
    yield "as Ray starts them", {}
    yield f"with {release.root} in PYTHONPATH", {"env_vars": {"PYTHONPATH": release.root}}
    yield f"with {sys.executable}", {"py_executable": sys.executable}
