# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What instance pools need of Ray, as a protocol, so that pools run in tests without it."""

from collections.abc import Collection
from enum import Enum
from typing import Any, Protocol

from cluster.placement.demand import ClusterResources
from deployments.instance.spec import InstanceSpec


class Knock(Enum):
    """What became of a connection to where a process listens, which may hang or be cut off.

    A kernel takes connections, or refuses them, whatever its processes do.
    """

    TAKEN = "the process lives, though it may be stopped"
    REFUSED = "it is gone, its node is not"
    SILENT = "its node is cut off"


class ActorLostError(Exception):
    """An actor is gone or cannot be reached; the message is one line that says why."""


class ActorUnreachableError(ActorLostError):
    """A call was lost on the way; whether the actor lives is not known."""


class EnvironmentFailedError(ActorLostError):
    """An actor was not started because its runtime environment could not be set up."""


class InstanceHost(Protocol):
    """Where instance actors live; `cluster.instances.actor_host.ActorHost` is one.

    Handles are opaque to whoever asks. All methods raise what they say and, where the host itself
    is at fault, anything else.
    """

    async def create(self, spec: InstanceSpec) -> Any:
        """Create the actor of a recipe and return its handle, before it is placed or loaded.

        Raises:
            ValueError: Its name is taken, also by an actor on its way out; or its recipe is wrong.
            ActorLostError: The host cannot be reached.
        """

    async def call(self, handle: Any, method: str, *arguments: object) -> Any:
        """Call a method of `deployments.instance.actor.ModelInstanceActor`.

        Raises:
            TritonError: As raised by the actor.
            ActorLostError: The actor is gone or cannot be reached.
        """

    async def knock(self, address: tuple[str, int], timeout_s: float) -> Knock:
        """Open a connection to where a process listens, and close it.

        Args:
            address: Host and port; port 0 is of nobody.
            timeout_s: How long it may take.
        """

    async def look_up(self, name: str) -> Any:
        """Return the handle of an actor by name; None when there is no such actor."""

    async def restarts(self, handle: Any) -> int:
        """Return how often the process of an actor was started again after its death.

        Raises:
            ActorLostError: The host cannot be reached.
        """

    async def kill(self, handle: Any) -> None:
        """Kill an actor for good, also one that is stopped; one that is gone is no error."""

    async def release(self, spec: InstanceSpec) -> None:
        """Free what an instance that is gone reserved beside its actor; mostly nothing.

        Raises:
            ActorLostError: The host cannot be reached.
        """

    async def release_all_but(self, all_but: Collection[str]) -> None:
        """Free the same of all instances but those of some actor names."""

    async def names(self) -> list[str]:
        """Return the names of this server's actors, instances and others."""

    async def resources(self) -> ClusterResources:
        """Return the nodes and what is free on each."""
