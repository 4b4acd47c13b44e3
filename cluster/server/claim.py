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
from cluster.server.start_controller import (
    find_controller,
    get_or_create_controller,
    wait_gone,
)

_POLL_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 15.0
_END_TIMEOUT_S: Final = 60.0


class ControllerActors:
    """What a claim needs of the actors of the cluster this process is connected with."""

    find = staticmethod(find_controller)
    create = staticmethod(get_or_create_controller)
    wait_gone = staticmethod(wait_gone)
    sleep = staticmethod(time.sleep)

    def ask(self, handle: Any, method: str, timeout_s: float | None) -> Any:
        """Call a controller's method and return its answer.

        Raises:
            GetTimeoutError: It does not answer in time.
            RayActorError: It is gone.
        """
        return ray.get(getattr(handle, method).remote(), timeout=timeout_s)


_RAY: Final = ControllerActors()


def require_unclaimed(actors: ControllerActors = _RAY) -> None:
    """Make sure that no server runs on this cluster; end one that its owner has left.

    Raises:
        AlreadyExistsError: A server runs; the message names its owner.
        UnavailableError: One is about to end but does not.
    """
    handle = actors.find()
    if handle is None:
        return
    try:
        owner = _present_owner(actors, handle)
        if owner is not None:
            raise _refusal(owner)
        actors.ask(handle, "end", _END_TIMEOUT_S)
    except GetTimeoutError:
        raise UnavailableError(
            "the Manta server that ran on this Ray cluster does not end; look into the log of"
            f" actor {CONTROLLER_NAME} or end the actor"
        ) from None
    except RayActorError:
        # It has ended meanwhile, which is what was wanted.
        pass
    actors.wait_gone(_ANSWER_TIMEOUT_S)


def claim(options: ServerOptions, owner: Owner, actors: ControllerActors = _RAY) -> Any:
    """Start the controller for an owner and return its handle.

    Raises:
        AlreadyExistsError: Another owner was faster.
    """
    handle = actors.create(options, owner)
    first, _ = actors.ask(handle, "owner", None)
    if first.token != owner.token:
        raise _refusal(first)
    return handle


def claim_again(options: ServerOptions, owner: Owner, actors: ControllerActors = _RAY) -> Any:
    """`claim` for an owner that may have the cluster already, with other options.

    Raises:
        AlreadyExistsError: Another owner has the cluster.
    """
    handle = actors.find()
    if handle is not None:
        try:
            first, _ = actors.ask(handle, "owner", _ANSWER_TIMEOUT_S)
            if first.token == owner.token:
                handle = claim(options, owner, actors)
                actors.ask(handle, "heartbeat", None)
                return handle
        except RayActorError:
            pass
    require_unclaimed(actors)
    return claim(options, owner, actors)


def _present_owner(actors: ControllerActors, handle: Any) -> Owner | None:
    """Return the owner if it is there, None if it has left its server."""
    shortest_s = float("inf")
    while True:
        answer: tuple[Owner, float] = actors.ask(handle, "owner", _ANSWER_TIMEOUT_S)
        owner, silence_s = answer
        if owner.is_deployed is not None:
            return owner if owner.is_deployed() else None
        # A heartbeat is proof of life; its absence only after a while one of death.
        if not owner.lease_s or silence_s < shortest_s < float("inf"):
            return owner
        if silence_s > SILENCE_S:
            return None
        shortest_s = silence_s
        actors.sleep(_POLL_S)


def _refusal(owner: Owner) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"a Manta server already runs on this Ray cluster, started by {owner.description}; stop it"
        " first, join another cluster with --ray-address, or have this release take over with"
        " 'manta upgrade'"
    )
