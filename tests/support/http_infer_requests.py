# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Bodies of HTTP infer requests, and what the decoder makes of them."""

import json
import struct
from typing import Any

import pytest

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, ModelInput
from deployments.http.codec.infer_request import InferDecoder
from deployments.http.codec.infer_spec import DecodedInfer


class Served:
    version = 1
    labels: dict[str, tuple[str, ...]] = {}

    def __init__(self, *inputs: ModelInput, max_batch_size: int = 8) -> None:
        self.name = "simple"
        self.config = ModelConfig("simple", max_batch_size=max_batch_size, input=inputs)


SIMPLE = Served(*(ModelInput(f"INPUT{i}", "INT32", (16,)) for i in range(2)))
FIRST = struct.pack("<16i", *range(16))
SECOND = struct.pack("<16i", *[1] * 16)


def decode(header: Any, tail: bytes = b"", model: Served = SIMPLE, **options: Any) -> DecodedInfer:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if tail else None
    return InferDecoder(**options).decode(memoryview(text + tail), length, model)


def given_input(name: str = "INPUT0", datatype: str = "INT32", **fields: Any) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [1, 16], **fields}


def binary_header(**extra: Any) -> dict[str, Any]:
    inputs = [given_input(f"INPUT{i}", parameters={"binary_data_size": 64}) for i in range(2)]
    return {"inputs": inputs, **extra}


def complaint(header: Any, tail: bytes = b"", model: Served = SIMPLE, **options: Any) -> str:
    with pytest.raises(TritonError) as caught:
        decode(header, tail, model, **options)
    return caught.value.as_string()
