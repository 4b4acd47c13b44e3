# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster carries one Manta server: taking it, and refusing the second.

A server whose owner is gone, but which has not ended itself yet, is ended by who comes next.
"""

import time
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.controller.ownership import SILENCE_S, Owner
from cluster.options.parsing import ServerOptions
from cluster.server.start_controller import get_or_create_controller, wait_gone
from deployments.instance.spec import NAMESPACE

_POLL_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 15.0
_END_TIMEOUT_S: Final = 60.0


def require_unclaimed() -> None:
    """Make sure that no server runs on this cluster; end one that its owner has left.

    Raises:
        AlreadyExistsError: A server runs; the message names its owner.
        UnavailableError: One is about to end but does not.
    """
    handle = _find()
    if handle is None:
        return
    try:
        owner = _present_owner(handle)
        if owner is not None:
            raise _refusal(owner)
        ray.get(handle.end.remote(), timeout=_END_TIMEOUT_S)
    except GetTimeoutError:
        raise UnavailableError(
            "the Manta server that ran on this Ray cluster does not end; look into the log of"
            f" actor {CONTROLLER_NAME} or end the actor"
        ) from None
    except RayActorError:
        # It has ended meanwhile, which is what was wanted.
        pass
    wait_gone(_ANSWER_TIMEOUT_S)


def claim(options: ServerOptions, owner: Owner) -> Any:
    """Start the controller for an owner and return its handle.

    Raises:
        AlreadyExistsError: Another owner was faster.
    """
    handle = get_or_create_controller(options, owner)
    first, _ = ray.get(handle.owner.remote())
    if first.token != owner.token:
        raise _refusal(first)
    return handle


def claim_again(options: ServerOptions, owner: Owner) -> Any:
    """`claim` for an owner that may have the cluster already, with other options.

    Raises:
        AlreadyExistsError: Another owner has the cluster.
    """
    handle = _find()
    if handle is not None:
        try:
            first, _ = ray.get(handle.owner.remote(), timeout=_ANSWER_TIMEOUT_S)
            if first.token == owner.token:
                handle = claim(options, owner)
                ray.get(handle.heartbeat.remote())
                return handle
        except RayActorError:
            pass
    require_unclaimed()
    return claim(options, owner)


def _find() -> Any:
    try:
        return ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
    except ValueError:
        return None


def _present_owner(handle: Any) -> Owner | None:
    """Return the owner if it is there, None if it has left its server."""
    shortest_s = float("inf")
    while True:
        answer: tuple[Owner, float] = ray.get(handle.owner.remote(), timeout=_ANSWER_TIMEOUT_S)
        owner, silence_s = answer
        if owner.is_deployed is not None:
            return owner if owner.is_deployed() else None
        # A heartbeat is proof of life; its absence only after a while one of death.
        if not owner.lease_s or silence_s < shortest_s < float("inf"):
            return owner
        if silence_s > SILENCE_S:
            return None
        shortest_s = silence_s
        time.sleep(_POLL_S)


def _refusal(owner: Owner) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"a Manta server already runs on this Ray cluster, started by {owner.description}; stop it"
        " first, or join another cluster with --ray-address"
    )
