# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The data of requests: streams of steps, and in each the tensors of one request."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from manta_tools.perf.data.model import Shape


@dataclass(frozen=True, slots=True)
class Content:
    """A tensor of a request.

    Attributes:
        datatype: A datatype of the V2 protocol.
        shape: With the batch dimension, where the model has one.
        raw: Its bytes as the binary extension has them; BYTES elements follow their lengths.
    """

    datatype: str
    shape: Shape
    raw: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """The data of one request, and what its answer has to be.

    Attributes:
        inputs: By name.
        expected: Bytes of outputs, by name; empty when the answer is not looked at.
    """

    inputs: Mapping[str, Content]
    expected: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataSet:
    """All data of a run.

    Attributes:
        streams: Rows of each stream; a sequence takes its requests from one stream.
        due_ms: When each row of the first stream is to be sent, where its file says so.
        is_read: Whether it came from files, so that a sequence is as long as its stream.
    """

    streams: tuple[tuple[Row, ...], ...]
    is_read: bool = False
    due_ms: tuple[int, ...] = ()
