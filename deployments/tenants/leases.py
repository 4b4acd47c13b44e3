# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an ingress and the controller tell each other about cluster-wide limits. Pure.

Limits of scope ``cluster`` are divided by leases: each ingress has a share of each, asks for it
anew about once a second, and tells with that how much it would use. No request waits for anybody.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

# How often an ingress asks, and for how long a lease is good from the asking.
RENEW_S: Final = 1.0
LEASE_S: Final = 5.0
# What an ingress without any lease yet takes for its share.
STARTING_SHARE: Final = 1 / 8


class Quota(IntEnum):
    """What is limited."""

    REQUESTS = 0
    CONCURRENT = 1
    BYTES = 2
    GPU = 3


class LeaseAsk(msgspec.Struct, array_like=True, frozen=True):
    """What an ingress asks for, of one limit of one tenant.

    Attributes:
        tenant: The tenant.
        quota: What is limited, a `Quota`.
        limit: How much of it all ingresses have together.
        demand: How much this ingress would use: a second, or at once.
        held: How much it has or uses until it hears otherwise.
    """

    tenant: str
    quota: int
    limit: float
    demand: float
    held: float


class LeaseReport(msgspec.Struct, array_like=True, frozen=True):
    """All that an ingress asks for.

    Attributes:
        number: Grows with each report; an answer to an older one is never taken.
        asks: By limit.
    """

    number: int
    asks: list[LeaseAsk]


class Lease(msgspec.Struct, array_like=True, frozen=True):
    """A share of one limit of one tenant.

    Attributes:
        tenant: The tenant.
        quota: What is limited, a `Quota`.
        share: How much of it the ingress has while the lease is good.
        fair: How much of it, at most, once it is not.
    """

    tenant: str
    quota: int
    share: float
    fair: float


_encoder: Final = msgspec.msgpack.Encoder()
_report_decoder: Final = msgspec.msgpack.Decoder(LeaseReport)
_lease_decoder: Final = msgspec.msgpack.Decoder(list[Lease])


def encode(sent: LeaseReport | Sequence[Lease]) -> bytes:
    """Return what is sent."""
    return _encoder.encode(sent)


def decode_report(data: bytes) -> LeaseReport:
    """Read what an ingress asks for.

    Raises:
        msgspec.MsgspecError: The bytes are nothing of the kind.
    """
    return _report_decoder.decode(data)


def decode_leases(data: bytes) -> list[Lease]:
    """Read what the controller answers.

    Raises:
        msgspec.MsgspecError: The bytes are nothing of the kind.
    """
    return _lease_decoder.decode(data)
