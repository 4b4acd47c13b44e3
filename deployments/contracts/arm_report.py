# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router tells the controller of the arms of rollouts: outcomes and times, since the last.

Times are counted by class, see `deployments.metrics.distributions`, so that reports add up.
"""

from collections.abc import Mapping, Sequence

import msgspec


class ArmReport(msgspec.Struct, array_like=True):
    """What one router has seen of one version of a model that has a rollout.

    Attributes:
        key: Key of the model.
        version: Version number.
        requests: Requests that have ended.
        errors: Those of them that the version, or what carries requests to it, failed.
        latencies: Classes of the microseconds until the last response, of those without an error.
        queue: Classes of the microseconds of these outside the model: in queues, on lanes.
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
    queue: dict[int, int] = {}
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
            self.queue,
            self.mirrored,
            self.mirror_errors,
            self.mismatches,
            self.dropped,
        )
        # Requests under way count in this object, which therefore stays.
        self.requests = self.errors = self.mirrored = 0
        self.mirror_errors = self.mismatches = self.dropped = 0
        self.latencies, self.queue = {}, {}
        return taken

    def add(self, other: "ArmReport") -> None:
        """Add what another report says of the same version."""
        self.requests += other.requests
        self.errors += other.errors
        self.mirrored += other.mirrored
        self.mirror_errors += other.mirror_errors
        self.mismatches += other.mismatches
        self.dropped += other.dropped
        _add(self.latencies, other.latencies)
        _add(self.queue, other.queue)


def _add(to: dict[int, int], more: Mapping[int, int]) -> None:
    for number, count in more.items():
        to[number] = to.get(number, 0) + count


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
