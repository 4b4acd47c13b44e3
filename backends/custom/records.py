# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Records between Python and the shim, which is C++: arrays in MessagePack.

Field by field `shim/records.cc` reads and writes the same. Tensors of less than `COPIED_BELOW`
bytes travel inside a record; of larger ones it has index, size and address, as a list of its own.
"""

from typing import Final

import msgspec

from backends.api.custom_metrics import CustomFamily
from backends.api.request import ParameterValue, Tensor

# A copy costs less than to find the address of a memoryview, or to make one of an address.
COPIED_BELOW: Final = 16384

RESPONSE: Final = 0
ERROR: Final = 1
EMPTY: Final = 2
RESCHEDULE: Final = 3
GONE: Final = 4

LargeTensor = tuple[int, int, int]


class BackendRecord(msgspec.Struct, array_like=True):
    """A backend library.

    Attributes:
        name: The backend's name.
        path: Its library's path.
        directory: Where it was found.
        config: JSON of its ``--backend-config`` settings.
    """

    name: str
    path: str
    directory: str
    config: str


class ModelRecord(msgspec.Struct, array_like=True):
    """A model.

    Attributes:
        name: Its name.
        version: Version number.
        directory: Local path of ``<repository>/<model>``.
        config: Its config as JSON.
        may_complete: Whether the library may complete the config.
        is_decoupled: Whether it is decoupled.
        outputs: Names that responses may have.
        states: By output name of a state the input name if both are one buffer, else "".
        strategy: Path of its batching library; empty for none.
    """

    name: str
    version: int
    directory: str
    config: str
    may_complete: bool
    is_decoupled: bool
    outputs: list[str]
    states: dict[str, str]
    strategy: str = ""


class InstanceRecord(msgspec.Struct, array_like=True):
    """An instance; ``kind`` is the number of a TRITONSERVER_InstanceGroupKind."""

    name: str
    kind: int
    device_id: int
    is_passive: bool
    profiles: list[str]
    secondary_devices: list[tuple[str, int]]
    host_policy: str


class RequestRecord(msgspec.Struct, array_like=True):
    """A request.

    Attributes:
        number: Names it in events.
        outputs: Names of the outputs wanted.
        inputs: Inputs; ``data`` of large ones is empty.
        large: Index, size and address of these.
    """

    number: int
    id: str
    correlation_id: int | str
    flags: int
    timeout_us: int
    parameters: dict[str, ParameterValue]
    outputs: list[str]
    inputs: list[Tensor]
    large: list[LargeTensor]


class EventRecord(msgspec.Struct, array_like=True):
    """What a library answered to a request.

    Attributes:
        number: The request's.
        kind: RESPONSE, ERROR, EMPTY, RESCHEDULE, or GONE when nothing follows a RESCHEDULE.
        is_final: Whether nothing follows, and the library reads the inputs no more.
        code: Number of an error's TRITONSERVER_Error_Code.
        text: An error's text.
        parameters: Response parameters.
        output_count: How many of the tensors are outputs; the others are states.
        tensors: Outputs and states; ``data`` of large ones is empty.
        large: Index, size and address of these; who reads the record frees them.
    """

    number: int
    kind: int
    is_final: bool
    code: int
    text: str
    parameters: dict[str, ParameterValue]
    output_count: int
    tensors: list[Tensor]
    large: list[LargeTensor]


class ExecutionRecord(msgspec.Struct, array_like=True):
    """What an execution came to.

    Attributes:
        compute_start_ns: When inputs were gathered, by CLOCK_MONOTONIC; 0 where it was not told.
        compute_end_ns: Likewise when the model was done.
        events: Answers; those of decoupled models are delivered otherwise.
    """

    compute_start_ns: int
    compute_end_ns: int
    events: list[EventRecord]


encode = msgspec.msgpack.Encoder().encode
decode_execution = msgspec.msgpack.Decoder(ExecutionRecord).decode
decode_events = msgspec.msgpack.Decoder(list[EventRecord]).decode
decode_metrics = msgspec.msgpack.Decoder(list[CustomFamily]).decode
