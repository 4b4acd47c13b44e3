# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router tells the controller of the load on versions that autoscale."""

from collections.abc import Sequence

import msgspec


class VersionLoad(msgspec.Struct, array_like=True, frozen=True):
    """The load that one router puts on one model version.

    Attributes:
        key: Key of the model.
        version: Version number.
        ongoing: Requests without a terminal outcome, waiting ones included; a mean.
        rate: Requests sent, a second.
    """

    key: str
    version: int
    ongoing: float
    rate: float

    @property
    def is_quiet(self) -> bool:
        """Whether there was no request."""
        return not (self.ongoing or self.rate)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[VersionLoad])


def encode_loads(loads: Sequence[VersionLoad]) -> bytes:
    """Return what one router sends."""
    return _encoder.encode(loads)


def decode_loads(data: bytes) -> list[VersionLoad]:
    """Read what `encode_loads` wrote.

    Raises:
        msgspec.DecodeError: The bytes are nothing of the kind.
    """
    return _decoder.decode(data)
