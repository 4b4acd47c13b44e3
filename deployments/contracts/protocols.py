# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which versions of what its processes tell each other this release speaks: the one table of them.

Two releases can run on one cluster, the newer taking over from the older or the other way round,
when each contract that both know has a version that both speak. A cluster is asked before anything
is changed (`cluster.server.upgrade`); only lanes choose their version again for each connection.

A new version of a contract is what a process of an older release would take for a fault, or
misread: a field without a default, another type, another meaning, a new member of an enumeration, a
frame of a new kind. A field with a default needs none: readers drop what they do not know
(`backends.api.evolving`, and msgpack's maps and growing arrays). Raise ``newest`` for such a
change, and ``oldest`` once nothing here can speak the old version any more. What the records of
each contract look like is kept beside the tests (`tests.support.wire_schemas`), and a change that
needs a new version and has none fails there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a contract that a process speaks: all from one to another.

    Attributes:
        oldest: The first.
        newest: The last, up to 255.
    """

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}"

    def common(self, other: "Versions") -> int:
        """Return the newest version that both speak; 0 when there is none."""
        newest = min(self.newest, other.newest)
        return newest if newest >= max(self.oldest, other.oldest) else 0


# 1 in a checkout; 2 installed, where they begin with "manta." (ADR 24).
_NAMES: Final = 2 if __name__.startswith("manta.") else 1

PROTOCOLS: Final[Mapping[str, Versions]] = {
    # Frames and messages of requests, of batches and of the pool's queue (tickets, grants, leases),
    # and the slabs that are lent with them. Version 3 did not negotiate.
    "lanes": Versions(4, 4),
    # What routers get of the controller, and what they report to it.
    "routing table": Versions(1, 1),
    # What else is asked of the controller: loads, settings, files, its owner's calls. Version 1
    # started what fetches files with the key of the lanes.
    "controller": Versions(2, 2),
    # The recipe an instance carries, and what it tells of itself.
    "instances": Versions(1, 1),
    # What an ingress tells its successor on the same node.
    "ingress hand-over": Versions(1, 1),
    # Claims of instances and their arbiter.
    "rate limiter": Versions(1, 1),
    # What a controller leaves its successor in the cluster's key-value store.
    "durable state": Versions(1, 1),
    # How modules are called, by which what is pickled finds its classes.
    "names of modules": Versions(_NAMES, _NAMES),
}

Told = Mapping[str, tuple[int, int]]


def told(protocols: Mapping[str, Versions] = PROTOCOLS) -> Told:
    """Return the table as one release tells it to any other: plain data for all time."""
    return {name: (spoken.oldest, spoken.newest) for name, spoken in protocols.items()}


def mismatches(theirs: Told, ours: Mapping[str, Versions] = PROTOCOLS) -> tuple[str, ...]:
    """Return why two releases cannot run on one cluster; empty when they can.

    Args:
        theirs: What the other release has told.
        ours: What this one speaks. A contract that only one of the two knows is no obstacle.
    """
    found = []
    for name, spoken in ours.items():
        other = Versions(*theirs[name]) if name in theirs else spoken
        if not spoken.common(other):
            found.append(f"{name}: it speaks version {other}, this release {spoken}")
    return tuple(found)
