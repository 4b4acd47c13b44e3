# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a port keeps for each of its callers."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from deployments.access.contracts import ROLE_OF_CATEGORY, Guard, Peer, Rights, Role
from deployments.data_plane.face import Plane
from deployments.data_plane.policy_tenants import PolicyTenants
from deployments.data_plane.view import CallerPlane
from deployments.data_plane.view_checks import NoteAsked
from deployments.protocol.forwarded_headers import CREDENTIALS

T = TypeVar("T")

# Callers whose applications are kept. Making one takes less than a millisecond.
CALLER_LIMIT: Final = 128

# Longest that a decision about a head or a connection is kept without asking the guard again, which
# remembers credentials itself. Bounds what a wall clock that is set back can do.
KEEP_S: Final = 10.0

_REPOSITORY: Final = "model-repository"


@dataclass(frozen=True, slots=True)
class Access:
    """What ports need where there is an access policy.

    Attributes:
        guard: Knows the callers.
        tenants: Bounds what tenants may have; None where nothing does.
    """

    guard: Guard
    tenants: PolicyTenants | None = None


class PerCaller(Generic[T]):
    """What is made for each caller, kept by its rights, up to a limit, until the policy changes.

    Args:
        guard: Tells the policy's revision.
        make: Makes it.
        limit: How many are kept; of more, those that were asked for longest ago are dropped.
    """

    def __init__(
        self, guard: Guard, make: Callable[[Rights], T], limit: int = CALLER_LIMIT
    ) -> None:
        self._guard = guard
        self._make = make
        self._limit = limit
        self._revision = guard.revision
        self._kept: OrderedDict[Rights, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, rights: Rights) -> T:
        """Return what was made for a caller, or make it."""
        kept = self._kept
        if self._guard.revision != self._revision:
            kept.clear()
            self._revision = self._guard.revision
        found = kept.get(rights)
        if found is None:
            while len(kept) >= self._limit:
                kept.popitem(last=False)
            found = kept[rights] = self._make(rights)
        else:
            kept.move_to_end(rights)
        return found


class Views:
    """Makes the planes of a port's callers.

    Args:
        plane: The plane of the process.
        access: What is needed.
        protocol: The port, as `Peer` has it.
    """

    def __init__(self, plane: Plane, access: Access, protocol: str) -> None:
        self._plane = plane
        self._guard = access.guard
        self._tenants = access.tenants
        # Of the many connections of a caller the log does not tell which.
        self._peer = Peer(protocol)

    def of(self, rights: Rights) -> CallerPlane:
        """Return the plane of a caller."""
        desk = self._tenants
        # Planes are made anew once the policy is another.
        tenants = desk if desk is not None and desk.is_needed else None
        return CallerPlane(self._plane, rights, tenants, note=self._note_of(rights))

    def _note_of(self, rights: Rights) -> NoteAsked:
        guard, peer = self._guard, self._peer

        def note(what: str, model: str, outcome: str) -> None:
            guard.note(rights, peer, what, model, outcome)

        return note


def roles_of(category: str, *, has_model: bool) -> tuple[Role, ...]:
    """Return the roles any of which lets a caller into a route or RPC.

    Args:
        category: Its category among Triton's restricted APIs.
        has_model: Whether it names one model. The index of a repository, which names none, may be
            had with the role for metadata too.
    """
    role = ROLE_OF_CATEGORY[category]
    if category == _REPOSITORY and not has_model:
        return (role, Role.METADATA)
    return (role,)


def hidden_headers(guard: Guard) -> frozenset[bytes]:
    """Return the names, in lower case, of what carries credentials and never reaches a model."""
    return CREDENTIALS | guard.credential_headers


def good_for_s(expires_s: float, wall_s: float) -> float:
    """Return for how many seconds a decision may be kept.

    Args:
        expires_s: When the credentials end.
        wall_s: Now; both by the wall clock.
    """
    return max(0.0, min(KEEP_S, expires_s - wall_s))
