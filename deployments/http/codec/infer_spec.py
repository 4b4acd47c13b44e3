# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the HTTP infer codecs know of a model, and what a request says of its answer."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from backends.api.model_config import ModelConfig
from backends.api.request import Extent, InferenceRequest


class RequestedModel(Protocol):
    """What the codec has to know of a model."""

    @property
    def name(self) -> str:
        """Model name."""

    @property
    def version(self) -> int:
        """Version number."""

    @property
    def config(self) -> ModelConfig:
        """The complete config."""

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """Class labels by output name."""


class RequestedOutput(msgspec.Struct, frozen=True):
    """How one output is wanted.

    Attributes:
        is_binary: Behind the JSON instead of in it.
        class_count: Classes wanted; 0 for the tensor itself.
        extent: Shared memory it shall be written to.
    """

    is_binary: bool = False
    class_count: int = 0
    extent: Extent | None = None


class OutputsSpec(msgspec.Struct):
    """How the outputs are wanted.

    Attributes:
        is_binary: For outputs not listed.
        by_name: For those listed.
        layout: What the encoder has kept of the last response; requests of a kind share a spec.
    """

    is_binary: bool = False
    by_name: dict[str, RequestedOutput] = {}
    layout: Any = None


class DecodedInfer(msgspec.Struct, frozen=True):
    """A decoded request: what the model gets, and how the client wants the answer."""

    request: InferenceRequest
    outputs: OutputsSpec
