# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is encoded once and sent many times, and where tensors of it lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manta_tools.perf.data.model import Model
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.options.values import RequestParameter

Parameter = bool | int | str


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a registered region of shared memory."""

    region: str
    offset: int
    size_bytes: int

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters of a tensor that lies there."""
        found: dict[str, Parameter] = {
            "shared_memory_region": self.region,
            "shared_memory_byte_size": self.size_bytes,
        }
        if self.offset:
            found["shared_memory_offset"] = self.offset
        return found


@dataclass(frozen=True, slots=True)
class Places:
    """Where the tensors of a row lie; what has no place travels in the request."""

    inputs: Mapping[str, Place] = field(default_factory=dict)
    outputs: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Payload:
    """A request as it is sent.

    Attributes:
        wire: Its bytes: of HTTP with the head, of gRPC the message.
        expected: Bytes that outputs have to have, by name; empty when answers are not looked at.
    """

    wire: bytes
    expected: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Form:
    """How all requests of a run are encoded.

    Attributes:
        model: The model.
        is_json_input: Whether inputs over HTTP are numbers and texts in the JSON.
        is_json_output: Whether outputs over HTTP are to be.
        headers: Headers of every request.
        parameters: Parameters of every request.
    """

    model: Model
    is_json_input: bool = False
    is_json_output: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    parameters: Sequence[RequestParameter] = ()


def sequence_parameters(part: SequencePart | None) -> dict[str, Parameter]:
    """Return the parameters that say where in a sequence a request stands."""
    if part is None:
        return {}
    return {
        "sequence_id": part.sequence_id,
        "sequence_start": part.is_start,
        "sequence_end": part.is_end,
    }
