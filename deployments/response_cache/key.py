# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests are the same to a response cache."""

import hashlib

import msgspec

from backends.api.request import InferenceRequest

KEY_BYTES = 24

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def request_key(identity: bytes, request: InferenceRequest) -> bytes | None:
    """Return the key of a checked request.

    Triton hashes the names and bytes of the inputs alone; here everything that can change the
    answer counts, so that two requests share an answer only if the model cannot tell them apart.

    Args:
        identity: Stands for the model version as it is loaded now.
        request: The request; its inputs in any order.

    Returns:
        KEY_BYTES bytes; None when the inputs' bytes are not in this process (clients' shared
        memory).

    Triton: core/src/cache_manager.cc HashInputs @73aad7c
    """
    if request.regions is not None:
        return None
    inputs = sorted(request.inputs, key=lambda each: each.name)
    digest = hashlib.blake2b(identity, digest_size=KEY_BYTES)
    # One encoded head keeps the fields apart: no two requests have the same bytes.
    digest.update(
        _encoder.encode(
            (
                [(each.name, each.datatype, each.shape, each.data.nbytes) for each in inputs],
                sorted(request.outputs),
                request.parameters,
                # What a model calls is answered by these versions.
                request.pins or None,
            )
        )
    )
    for each in inputs:
        digest.update(each.data)
    return digest.digest()
