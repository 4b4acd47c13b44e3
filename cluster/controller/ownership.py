# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whom the server of a Ray cluster belongs to, and when it has lost its owner. Pure.

Controller, instances and ingress outlive the process that started them, so something must say when
they end. An owner is either a driver, which sends heartbeats, or a Serve application, which is
there or not. A server that lost its owner ends itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backends.api.evolving import evolves

# A driver sends a heartbeat this often. Whoever missed three may be replaced by another driver; the
# server itself waits for the whole lease.
HEARTBEAT_S: Final = 2.0
SILENCE_S: Final = 3 * HEARTBEAT_S
LEASE_S: Final = 20.0
_APPLICATION_POLL_S: Final = 3.0
# From the claim to the moment Serve lists the application: the time to build and submit it.
_DEPLOY_GRACE_S: Final = 60.0
# One look may fall between the two halves of a redeployment.
_MISSES_TO_BE_GONE: Final = 2


@dataclass(frozen=True, slots=True)
class Owner:
    """Who started the server.

    Attributes:
        token: Tells owners apart.
        description: Who it is, for the message that refuses a second server.
        lease_s: How long the server lives without a heartbeat; 0 is for ever.
        is_deployed: Says whether the Serve application is there; None when the owner is a driver.
        end_ingress: Ends what the owner has started besides the controller and the instances.
    """

    token: str = ""
    description: str = "an unknown process"
    lease_s: float = 0.0
    is_deployed: Callable[[], bool] | None = None
    end_ingress: Callable[[], None] | None = None


evolves(Owner)


class Lifeline:
    """What connects a server to its owner. Times are seconds of one monotonic clock."""

    def __init__(self, owner: Owner, now_s: float) -> None:
        self.owner = owner
        self._heard_s = now_s
        self._was_deployed = False
        self._misses = 0

    @property
    def period_s(self) -> float:
        """How often to look whether the owner is lost; 0 when it cannot be."""
        if self.owner.is_deployed is not None:
            return _APPLICATION_POLL_S
        return self.owner.lease_s / 4

    def heard(self, now_s: float) -> None:
        """Note a heartbeat, or a new deployment that is about to come."""
        self._heard_s = now_s
        self._was_deployed = False
        self._misses = 0

    def saw_application(self, now_s: float, *, is_deployed: bool) -> None:
        """Note whether the owner's application was there."""
        if is_deployed:
            self._was_deployed = True
            self._misses = 0
        elif self._was_deployed or self.silence_s(now_s) > _DEPLOY_GRACE_S:
            self._misses += 1

    def silence_s(self, now_s: float) -> float:
        """Return the time since the last heartbeat."""
        return now_s - self._heard_s

    def is_lost(self, now_s: float) -> bool:
        """Whether the owner is gone and the server shall end."""
        if self.owner.is_deployed is not None:
            return self._misses >= _MISSES_TO_BE_GONE
        return 0 < self.owner.lease_s < self.silence_s(now_s)
