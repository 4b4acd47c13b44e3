# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which arm of a rollout answers a request. Pure; each ingress has a chooser of its own.

Theory of operation. In this order: the arm a sequence began with; the first rule that holds; the
sticky key or the correlation id, hashed; the weights.

- A number in [0, 2^32) stands for a key or for a request without one. With two arms the candidate
  has the numbers below its weight: a heavier candidate takes keys from the stable arm and gives
  none back. With more arms each key ranks all arms by a hash of both and the weights (weighted
  rendezvous), and a change of weights moves keys only to arms that grew or from arms that shrank.
- Requests without a key take the next number of a golden-ratio sequence. Any stretch of it, and
  any regular part of a stretch, is spread evenly, so that the split is exact within a few requests
  and does not beat with clients that take turns. Ingresses begin at random places and need not know
  of each other.
- All ingresses hash alike, so a key has one arm everywhere.
- An arm whose version cannot serve keeps its place, and its requests go to the stable arm: no
  other key moves, neither then nor when it is back.
"""

import math
import zlib
from collections.abc import Collection, Mapping
from typing import Final

from backends.api.request import SEQUENCE_END, SEQUENCE_START, ParameterValue
from deployments.rollouts.matching import Matcher, text_at
from deployments.rollouts.spec import TOTAL_WEIGHT, Arm, Traffic

SPACE: Final = 1 << 32
MOST_SEQUENCES: Final = 65_536

_MASK: Final = SPACE - 1
# 2^32 divided by the golden ratio.
_STRIDE: Final = 2_654_435_769
_PAIR: Final = 2


def spread(number: int) -> int:
    """Mix the bits of a number in [0, 2^32) into another; one to one.

    The factors have 30 bits, so that products stay small integers in the compiled form.
    """
    number ^= number >> 16
    number = number * 0x2C1B3C6D & _MASK
    number ^= number >> 12
    number = number * 0x297A2D39 & _MASK
    return number ^ number >> 15


def place_of(key: str, salt: int) -> int:
    """Return the number of a key in [0, 2^32): the same in every process."""
    return spread(zlib.crc32(key.encode("utf-8", "surrogatepass")) ^ salt)


class Chooser:
    """Chooses for the requests of one model that one ingress takes.

    Args:
        traffic: What is in force.
        usable: Versions that can serve now.
        phase: Where its share of requests without a key begins: any number, drawn at random.
    """

    __slots__ = (
        "_arms",
        "_began",
        "_ends",
        "_is_keyed",
        "_position",
        "_rendezvous",
        "_rules",
        "_salt",
        "_served",
        "_shadow_end",
        "_shadow_position",
        "traffic",
    )

    def __init__(self, traffic: Traffic, usable: Collection[int], phase: int) -> None:
        self._position = phase & _MASK
        self._shadow_position = spread(self._position)
        # By sequence: the version it began with; the longest unused first.
        self._began: dict[int | str, int] = {}
        self.take(traffic, usable)

    def take(self, traffic: Traffic, usable: Collection[int]) -> None:
        """Go on with other weights or other versions that can serve; sequences stay."""
        self.traffic = traffic
        arms = traffic.arms
        stable = next((arm for arm in arms if arm.version in usable), arms[0])
        self._arms = arms
        # What answers for each arm.
        self._served = tuple(arm if arm.version in usable else stable for arm in arms)
        self._salt = spread(zlib.crc32(traffic.salt.encode()))
        self._rules = [(Matcher(rule), self._by_name(rule.arm)) for rule in traffic.rules]
        self._is_keyed = traffic.sticky is not None
        # The candidate comes first, so that its numbers grow from 0 on.
        order = (*range(1, len(arms)), 0)
        ends: list[tuple[int, int]] = []
        total = 0
        for at in order:
            total += arms[at].weight
            ends.append((total * SPACE // TOTAL_WEIGHT, at))
        self._ends = tuple(ends)
        self._rendezvous: tuple[tuple[int, int, int], ...] = tuple(
            (at, arm.weight, spread(zlib.crc32(arm.name.encode()) ^ self._salt))
            for at, arm in enumerate(arms)
            if arm.weight
        )
        weight = 0 if traffic.shadow is None else traffic.shadow.weight
        self._shadow_end = weight * SPACE // TOTAL_WEIGHT

    def choose(
        self,
        headers: Mapping[str, str],
        parameters: Mapping[str, ParameterValue],
        tenant: str = "",
        sequence: int | str = 0,
        flags: int = 0,
    ) -> Arm:
        """Return the arm that answers.

        Args:
            headers: Or metadata, names in lower case; empty where no rule and no key needs them.
            parameters: Of the request.
            tenant: Of the caller; empty for nobody.
            sequence: The correlation id; 0 or "" without one.
            flags: SEQUENCE_START | SEQUENCE_END.
        """
        if not sequence:
            return self._served[self._number(headers, parameters, tenant, sequence)]
        began = self._began.pop(sequence, -1)
        is_known = began >= 0 and not flags & SEQUENCE_START
        arm = self._of_version(began) if is_known else None
        if arm is None:
            arm = self._served[self._number(headers, parameters, tenant, sequence)]
        if not flags & SEQUENCE_END:
            self._remember(sequence, arm.version)
        return arm

    def mirrors(self) -> bool:
        """Whether the next request is copied to the shadow, if there is one."""
        if not self._shadow_end:
            return False
        self._shadow_position = self._shadow_position + _STRIDE & _MASK
        return self._shadow_position < self._shadow_end

    def _number(
        self,
        headers: Mapping[str, str],
        parameters: Mapping[str, ParameterValue],
        tenant: str,
        sequence: int | str,
    ) -> int:
        for matcher, at in self._rules:
            if matcher.matches(headers, parameters, tenant, sequence):
                return at
        if self._is_keyed or sequence:
            key = self._key(headers, parameters, tenant, sequence)
            if key is not None:
                return self._of_key(key)
        self._position = self._position + _STRIDE & _MASK
        return self._at(self._position)

    def _key(
        self,
        headers: Mapping[str, str],
        parameters: Mapping[str, ParameterValue],
        tenant: str,
        sequence: int | str,
    ) -> str | None:
        sticky = self.traffic.sticky
        if sticky is not None:
            key = text_at(sticky.source, sticky.name, headers, parameters, tenant, sequence)
            if key is not None:
                return key
        return str(sequence) if sequence else None

    def _of_key(self, key: str) -> int:
        place = place_of(key, self._salt)
        if len(self._arms) <= _PAIR:
            return self._at(place)
        chosen = 0
        best = math.inf
        for at, weight, salt in self._rendezvous:
            # An exponential clock for each arm, as fast as its weight: the first to ring has the
            # key. The half keeps the logarithm finite.
            rings = -math.log((spread(place ^ salt) + 0.5) / SPACE) / weight
            if rings < best:
                chosen, best = at, rings
        return chosen

    def _at(self, place: int) -> int:
        for end, at in self._ends:
            if place < end:
                return at
        return 0

    def _by_name(self, name: str) -> int:
        return next((at for at, arm in enumerate(self._arms) if arm.name == name), 0)

    def _of_version(self, version: int) -> Arm | None:
        return next((arm for arm in self._served if arm.version == version), None)

    def _remember(self, sequence: int | str, version: int) -> None:
        if len(self._began) >= MOST_SEQUENCES:
            del self._began[next(iter(self._began))]
        self._began[sequence] = version
