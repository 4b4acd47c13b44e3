# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router tells the controller of the arms of rollouts: outcomes and latencies, since last.

Latencies are counted in buckets of which each is at most a thirty-second wider than its lower edge,
so that a quantile is known to three per cent whatever its size, and reports of many routers add up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

_STEPS_BITS: Final = 5
_STEPS: Final = 1 << _STEPS_BITS
# Of latencies that are longer nothing more is known: an hour and a half.
_MOST_US: Final = (1 << 32) - 1


def bucket_of(latency_us: int) -> int:
    """Return the bucket of a latency."""
    latency_us = min(max(latency_us, 0), _MOST_US)
    if latency_us < _STEPS:
        return latency_us
    shift = latency_us.bit_length() - _STEPS_BITS - 1
    return (shift << _STEPS_BITS) + (latency_us >> shift)


def value_us(bucket: int) -> float:
    """Return the middle of a bucket, microseconds."""
    if bucket < 2 * _STEPS:
        return float(bucket)
    shift = (bucket >> _STEPS_BITS) - 1
    low = (bucket - (shift << _STEPS_BITS)) << shift
    return low + ((1 << shift) - 1) / 2


class ArmReport(msgspec.Struct, array_like=True):
    """What one router has seen of one version of a model that has a rollout.

    Attributes:
        key: Key of the model.
        version: Version number.
        requests: Requests that have ended.
        errors: Those of them that the version, or what carries requests to it, failed.
        latencies: By bucket: how many requests took so long until their last response.
        mirrored: Requests that were sent to it for comparison only.
        mirror_errors: Those of them that failed.
        mismatches: Those of them whose answer was another.
        dropped: Requests that were to be mirrored, and were not: too many were under way.
    """

    key: str
    version: int
    requests: int = 0
    errors: int = 0
    latencies: dict[int, int] = {}
    mirrored: int = 0
    mirror_errors: int = 0
    mismatches: int = 0
    dropped: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.requests or self.mirrored or self.dropped)

    def taken(self) -> "ArmReport":
        """Return what it says, and have it say nothing."""
        taken = ArmReport(
            self.key,
            self.version,
            self.requests,
            self.errors,
            self.latencies,
            self.mirrored,
            self.mirror_errors,
            self.mismatches,
            self.dropped,
        )
        # Requests under way count in this object, which therefore stays.
        self.requests = self.errors = self.mirrored = 0
        self.mirror_errors = self.mismatches = self.dropped = 0
        self.latencies = {}
        return taken

    def add(self, other: "ArmReport") -> None:
        """Add what another report says of the same version."""
        self.requests += other.requests
        self.errors += other.errors
        self.mirrored += other.mirrored
        self.mirror_errors += other.mirror_errors
        self.mismatches += other.mismatches
        self.dropped += other.dropped
        add_latencies(self.latencies, other.latencies)


def add_latencies(to: dict[int, int], more: Mapping[int, int]) -> None:
    """Add counts by bucket."""
    for bucket, count in more.items():
        to[bucket] = to.get(bucket, 0) + count


def quantile_us(latencies: Mapping[int, int], fraction: float) -> float:
    """Return a quantile of counted latencies, microseconds; 0 where none were counted."""
    total = sum(latencies.values())
    wanted = fraction * total
    seen = 0
    for bucket in sorted(latencies):
        seen += latencies[bucket]
        if seen >= wanted:
            return value_us(bucket)
    return 0.0


def merged(reports: Iterable[ArmReport]) -> list[ArmReport]:
    """Return one report for each version."""
    found: dict[tuple[str, int], ArmReport] = {}
    for report in reports:
        key = report.key, report.version
        if key not in found:
            found[key] = ArmReport(*key)
        found[key].add(report)
    return list(found.values())


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[ArmReport])


def encode_arms(reports: Sequence[ArmReport]) -> bytes:
    """Return what one router sends."""
    return _encoder.encode(reports)


def decode_arms(data: bytes) -> list[ArmReport]:
    """Read what `encode_arms` wrote.

    Raises:
        msgspec.DecodeError: The bytes are nothing of the kind.
    """
    return _decoder.decode(data)
