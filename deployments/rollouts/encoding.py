# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the traffic of a model travels in the routing table."""

from typing import Final

import msgspec

from deployments.rollouts.spec import Traffic

_decoder: Final = msgspec.msgpack.Decoder(Traffic)


def encode_traffic(traffic: Traffic) -> bytes:
    """Return what stands in the routing table; a reader leaves out what its release knows not."""
    return msgspec.msgpack.encode(traffic)


def decode_traffic(data: bytes) -> Traffic:
    """Read what `encode_traffic` wrote.

    Raises:
        msgspec.MsgspecError: The bytes are nothing of the kind.
    """
    return _decoder.decode(data)
