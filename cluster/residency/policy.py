# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which model versions go to rest: those used longest ago, when there are too many.

Pure: the clock, the uses and the sizes are arguments.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.api.model_identifier import shown

Key = tuple[str, int]
PINNED: Final = "ondemand.pinned"
# Of those that stay for one reason, so many are named.
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Resident:
    """A model version with instances.

    Attributes:
        key: Model key and version number.
        used_s: When it was last used, or woken.
        is_in_use: Whether requests run or wait there.
        is_pinned: Whether it is never put to rest.
        least_idle_s: How long it must have been idle, because its sequences may go on.
        sizes_bytes: By node: the memory that its processes have for themselves.
    """

    key: Key
    used_s: float
    is_in_use: bool = False
    is_pinned: bool = False
    least_idle_s: float = 0.0
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResidencyLimits:
    """What may stay.

    Attributes:
        max_models: Model versions; 0 for any number.
        memory_fraction: Part of a node's memory that they may have there together.
        low_fraction: Part of that down to which memory is made free once it was exceeded, so that
            not each further wake exceeds it again.
        least_stay_s: How long a version stays at least after a use, so that two that are used in
            turn do not drive each other out.
    """

    max_models: int = 0
    memory_fraction: float = 0.9
    low_fraction: float = 0.9
    least_stay_s: float = 1.0


def to_rest(
    residents: Collection[Resident],
    nodes_bytes: Mapping[str, int],
    limits: ResidencyLimits,
    now_s: float,
    *,
    arriving: int = 0,
) -> tuple[Key, ...]:
    """Return which versions go to rest, those used longest ago first.

    What is pinned, in use or was used just now stays, also where that is too much. It takes
    O(n log n) for n instances, however many nodes there are.

    Args:
        residents: All versions with instances.
        nodes_bytes: By node: the memory that processes may use there.
        limits: What may stay.
        now_s: The time.
        arriving: How many versions are being woken.
    """
    bounds = dict(_bounds(nodes_bytes, limits))
    used_bytes = _used_bytes(residents)
    excess = max(0, len(residents) + arriving - limits.max_models) if limits.max_models else 0
    full = [node for node, high_bytes in bounds.items() if used_bytes.get(node, 0) > high_bytes]
    if not (excess or full):
        return ()
    there = frozenset(full)
    idle = sorted(
        (
            each
            for each in residents
            if (excess or not there.isdisjoint(each.sizes_bytes)) and may_go(each, limits, now_s)
        ),
        key=lambda each: (each.used_s, each.key),
    )
    leaving: dict[Key, Resident] = {}

    def let_go(resident: Resident) -> None:
        leaving[resident.key] = resident
        for node, size_bytes in resident.sizes_bytes.items():
            used_bytes[node] -= size_bytes

    for each in idle[:excess]:
        let_go(each)
    idle_on = _idle_on(full, idle)
    for node in full:
        if used_bytes[node] <= bounds[node]:
            continue
        low_bytes = bounds[node] * limits.low_fraction
        for each in idle_on[node]:
            if used_bytes[node] <= low_bytes:
                break
            if each.key not in leaving and each.sizes_bytes[node]:
                let_go(each)
    return tuple(leaving)


def room_left(
    residents: Collection[Resident], limits: ResidencyLimits, now_s: float
) -> tuple[int | None, str]:
    """Return how many more versions may be woken, and what holds the room.

    What may go counts as room: it goes when that is needed.

    Returns:
        The number, None for any; a clause that names who stays, for those who have to wait.
    """
    if not limits.max_models:
        return None, ""
    holders: dict[str, list[str]] = {}
    for each in sorted(residents, key=lambda each: each.key):
        why = _stays_because(each, limits, now_s)
        if why:
            holders.setdefault(why, []).append(f"'{shown(each.key[0])}'")
    count = sum(map(len, holders.values()))
    text = "; ".join(f"{_some(names)} {why}" for why, names in sorted(holders.items()))
    return limits.max_models - count, (
        f"--ondemand-max-models={limits.max_models} lets no more model versions have instances"
        f" ({text or 'others are being started'}); raise it, or wait until one of these is idle"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _used_bytes(residents: Iterable[Resident]) -> dict[str, int]:
    """Return how much memory is used on each node."""
    used_bytes: dict[str, int] = {}
    for each in residents:
        for node, size_bytes in each.sizes_bytes.items():
            used_bytes[node] = used_bytes.get(node, 0) + size_bytes
    return used_bytes


def _idle_on(nodes: Iterable[str], idle: Iterable[Resident]) -> Mapping[str, list[Resident]]:
    """Return which of the idle versions are on each of some nodes, in the same order."""
    found: dict[str, list[Resident]] = {node: [] for node in nodes}
    for each in idle:
        for node in each.sizes_bytes:
            if node in found:
                found[node].append(each)
    return found


def may_go(resident: Resident, limits: ResidencyLimits, now_s: float) -> bool:
    """Whether a version may be put to rest."""
    return not _stays_because(resident, limits, now_s)


def _stays_because(resident: Resident, limits: ResidencyLimits, now_s: float) -> str:
    idle_s = now_s - resident.used_s
    causes = (
        (resident.is_pinned, f"pinned ({PINNED})"),
        (resident.is_in_use, "in use"),
        (idle_s < limits.least_stay_s, "used just now"),
        (idle_s < resident.least_idle_s, "kept for sequences"),
    )
    return next((cause for holds, cause in causes if holds), "")


def _bounds(nodes_bytes: Mapping[str, int], limits: ResidencyLimits) -> Iterator[tuple[str, float]]:
    for node, size_bytes in sorted(nodes_bytes.items()):
        yield node, size_bytes * limits.memory_fraction
