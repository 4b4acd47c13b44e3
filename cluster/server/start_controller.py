# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finding the cluster's controller, creating it, taking over from another release, and its end."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import ray

from backends.api.errors import UnsupportedError
from cluster.actors.calls import kill_actor
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.actors.file_registry import Rows
from cluster.actors.kept_secrets import keep_secrets
from cluster.controller.controller import ModelController
from cluster.controller.durable_state import HANDOVER_KEY, STATE_PREFIX
from cluster.controller.handover import Handover, decode_handover
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions
from cluster.release import own_release
from deployments.contracts.protocols import Told, mismatches
from deployments.instance.spec import NAMESPACE

# One long poll per router, and every load of a client.
_MAX_CONCURRENCY = 10_000
_KILL_TIMEOUT_S = 5.0
_KILL_POLL_S = 0.02
_NOBODY = Owner()
# Only the head has it. A controller elsewhere would keep a node from being removed, and would end
# with it; without the head there is nobody who could start it anyway.
_HEAD = {"node:__internal_head__": 0.001}
_UNKNOWN: Final = "a release that cannot be upgraded while it runs"


@dataclass(frozen=True, slots=True)
class ToldRelease:
    """What a running server says of its release.

    Attributes:
        name: Version and digest; empty of a release from before they were told.
        protocols: The contracts that it speaks.
    """

    name: str = ""
    protocols: Told = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether it is the release of this process."""
        return self.name == str(own_release())

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ToldRelease":
        """Read what `ModelController.release` has returned, of whatever release it is."""
        protocols = {name: (first, last) for name, (first, last) in answer["protocols"].items()}
        return cls(answer["release"], protocols)


def require_compatible(theirs: ToldRelease) -> None:
    """Make sure that processes of both releases can work together.

    Raises:
        UnsupportedError: They cannot; nothing has been changed.
    """
    faults = mismatches(theirs.protocols) if theirs.name else ("it does not say what it speaks",)
    if faults:
        raise UnsupportedError(
            f"release {own_release()} cannot take over from {theirs.name or _UNKNOWN}: "
            + "; ".join(faults)
            + ". Upgrade to a release between the two first, or stop the server and start it anew"
        )


def find_controller() -> Any:
    """Return the handle of the cluster's controller; None when there is none."""
    try:
        return ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
    except ValueError:
        return None


def wait_gone(timeout_s: float) -> None:
    """Wait until an ending controller's name is free, else a new one would be taken for it."""
    deadline_s = time.monotonic() + timeout_s
    with contextlib.suppress(ValueError):
        while time.monotonic() < deadline_s:
            ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
            time.sleep(_KILL_POLL_S)


def get_or_create_controller(options: ServerOptions, owner: Owner = _NOBODY) -> Any:
    """Return the handle of the cluster's controller, created when there is none.

    A controller that runs with other options, or is of another release, is replaced; the new one
    adopts its instances, so that what has not changed serves on. Of the same owner it goes on with
    all that clients have loaded and set; only for another owner it begins anew.

    Raises:
        UnsupportedError: The one that runs is of a release that this one cannot take over from.
    """
    resumes = False
    try:
        handle: Any = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        theirs = told_release(handle)
        if theirs.is_own and ray.get(handle.server_options.remote()) == options:
            return handle
        if not theirs.is_own:
            return replace_controller(handle, theirs, options, owner)
        first, _ = ray.get(handle.owner.remote())
        resumes = first.token == owner.token
        if resumes:
            _hand_over(handle)
        kill_controller(handle)
    except (ValueError, ray.exceptions.RayActorError):
        pass
    handle = _create(options, owner, resumes=resumes)
    # What it goes on with is in the state; the options left with that are not the latest any more.
    Rows().delete(HANDOVER_KEY)
    return handle


def create_another(options: ServerOptions, owner: Owner) -> Any:
    """Start a controller where a server has lost its own; it goes on with what that has left.

    Returns its handle; that of a controller that somebody else has started meanwhile.
    """
    return _create(options, owner, resumes=True)


def has_left_state() -> bool:
    """Whether a controller has left its state, which the end of a server removes."""
    return bool(Rows().keys(STATE_PREFIX))


def told_release(handle: Any) -> ToldRelease:
    """Return what a controller says of its release."""
    # Of a release before releases were told, the handle does not have the method.
    if not hasattr(handle, "release"):
        return ToldRelease()
    return ToldRelease.of(ray.get(handle.release.remote()))


def replace_controller(
    handle: Any,
    theirs: ToldRelease,
    options: ServerOptions,
    owner: Owner,
    runtime_env: Mapping[str, Any] | None = None,
) -> Any:
    """Put a controller of this release in the place of one of another; returns its handle.

    Args:
        handle: The one that runs; None when it has ended.
        theirs: Its release.
        options: The server's options.
        owner: Whom the server belongs to.
        runtime_env: How processes find this release, in Ray's terms; None where they do anyway.

    Raises:
        UnsupportedError: The two releases cannot work together; nothing has been changed.
    """
    require_compatible(theirs)
    if handle is not None:
        _hand_over(handle)
        kill_controller(handle)
    return _create(options, owner, runtime_env, resumes=True)


def left_behind() -> Handover | None:
    """Return what the last controller has left for its successor; None for nothing."""
    data = Rows().get(HANDOVER_KEY)
    return None if data is None else decode_handover(data)


def kill_controller(handle: Any) -> None:
    """End a controller for good and wait until its name is free."""
    kill_actor(handle)
    wait_gone(_KILL_TIMEOUT_S)


def _hand_over(handle: Any) -> None:
    # One that dies meanwhile leaves what it has written. It is killed all the same: Ray may be
    # starting it again, under its name and with its own options.
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(handle.hand_over.remote())


def _create(
    options: ServerOptions,
    owner: Owner,
    runtime_env: Mapping[str, Any] | None = None,
    *,
    resumes: bool = False,
) -> Any:
    actor = ray.remote(ModelController).options(
        name=CONTROLLER_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=_MAX_CONCURRENCY,
        num_cpus=0,
        resources=_HEAD,
        runtime_env=dict(runtime_env) if runtime_env else None,
    )
    told = keep_secrets(options)
    return actor.remote(told, owner, resumes=resumes, has_secrets=told is not options)
