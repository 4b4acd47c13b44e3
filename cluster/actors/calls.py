# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of Ray actors whose errors are ours rather than Ray's, and which actors there are."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import ray
from ray._private import state
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    RayError,
    RayTaskError,
    RuntimeEnvSetupError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from backends.api.errors import InternalError, TritonError, UnavailableError
from cluster.options.concealing import without_user
from deployments.instance.spec import NAMESPACE

T = TypeVar("T")

_INSTALLER_OUTPUT = "lines of stdout:"
_MAX_OUTPUT_CHARS = 2000
_START_TIMEOUT_S = 60.0
_RETRY_S = 0.05


async def call(reference: Awaitable[T]) -> T:
    """Await an actor call, with the actor's own error in place of Ray's wrapper.

    Raises:
        TritonError: As raised in the actor; any other exception of it is an `InternalError`.
        RayError: The actor is gone or cannot be reached.
    """
    try:
        return await reference
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TritonError):
            raise cause from None
        raise InternalError(f"{type(cause).__name__}: {cause}") from error


def cause_of(error: BaseException) -> str:
    """Say on one line why a call failed."""
    if isinstance(error, TritonError):
        return error.as_string()
    if isinstance(error, ActorUnavailableError):
        return "its process ended or cannot be reached"
    if isinstance(error, RuntimeEnvSetupError):
        return f"its environment could not be set up: {_installer_output(str(error))}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # Ray reports a death in a dozen lines of identifiers; the cause comes last.
    return lines[-1] if isinstance(error, ActorDiedError) else lines[0]


def _installer_output(text: str) -> str:
    """Return what pip or uv said last, out of Ray's traceback around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((i for i, line in enumerate(lines) if line.endswith(_INSTALLER_OUTPUT)), None)
    shown = lines[-1:] if said is None else lines[said + 1 :]
    # An index may be given with a token, which clients shall not read in the load's error.
    return without_user("\n".join(shown))[-_MAX_OUTPUT_CHARS:]


def actor_names() -> list[str]:
    """Return the names of this server's actors that are alive; not on an event loop."""
    actors: Sequence[dict[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]


def for_each_actor(prefix: str, do: Callable[[Any], object]) -> None:
    """Do something with this server's actors whose names begin so; not on an event loop."""
    for name in actor_names():
        if name.startswith(prefix):
            # It may have ended since.
            with contextlib.suppress(RayError, ValueError):
                do(ray.get_actor(name, namespace=NAMESPACE))


def start_on_node(
    kind: type, name: str, node_id: str, what: str, *arguments: object, **options: object
) -> Any:
    """Return the handle of a node's actor, started where it is not; not on an event loop.

    Args:
        kind: Its class, with a method ``ready``.
        name: Its name, which nothing else has.
        node_id: The node.
        what: What it is, for the error.
        arguments: Those of its class.
        options: Of Ray, beside those that all such actors have.

    Raises:
        UnavailableError: It does not start.
    """
    made: Any = ray.remote(kind).options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        enable_task_events=False,
        **options,
    )
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            handle = made.remote(*arguments)
            # Not ray.get, which warns wherever it is called in an actor that has an event loop.
            handle.ready.remote().future().result(_START_TIMEOUT_S)
        except (RayError, ValueError, TimeoutError) as error:
            # One of an ending server may still hold the name.
            if time.monotonic() >= deadline_s:
                raise UnavailableError(f"{what} does not start: {cause_of(error)}") from error
            time.sleep(_RETRY_S)
        else:
            return handle


def restart_count(handle: Any) -> int:
    """Return how often Ray has started an actor's process again; not on an event loop."""
    # Nothing public tells; Ray's own list of actors for people is made of the same.
    found: dict[str, Any] = state.actors(handle._actor_id.hex())  # noqa: SLF001
    return int(found.get("NumRestarts", 0))


def kill_actor(handle: Any) -> None:
    """Kill an actor for good; one that is gone already is no error."""
    with contextlib.suppress(RayError, ValueError):
        ray.kill(handle, no_restart=True)
