# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests, responses and tensors as every layer sees them.

The structs are msgspec array-likes because lanes encode them as they are: one pass in C writes a
small request with its tensors' bytes, and decoding yields views into the received buffer. A
tensor's bytes are always the V2 wire form: C order, little endian, BYTES length-prefixed.
"""

from collections.abc import Sequence
from math import prod

import msgspec
import numpy as np
import numpy.typing as npt

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.datatypes import datatype_of, numpy_dtype
from backends.api.errors import UnsupportedError

EMPTY = memoryview(b"")

# Below this a copy to bytes costs less than the three numpy calls that make a flat view.
_COPY_BELOW_BYTES = 16384
_MOST_CORRELATION_ID_BYTES = 128
ParameterValue = bool | int | float | str

SEQUENCE_START = 1
SEQUENCE_END = 2


class Extent(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of a tensor that do not travel inside the message.

    Attributes:
        source: Where they lie: ``"tail"`` (behind the message), ``"slab"`` (shared memory of the
            sending process) or the source of a region of clients' memory.
        offset: First byte in the source.
        size_bytes: Number of bytes.
        slab_id: The sender's number of the slab, when source is ``"slab"``.
    """

    source: str
    offset: int
    size_bytes: int
    slab_id: int = 0


class Tensor(msgspec.Struct, array_like=True):
    """A named tensor in wire form.

    Attributes:
        name: Tensor name.
        datatype: V2 datatype name.
        shape: Full shape, batch dimension included.
        data: Wire bytes, format ``B``, contiguous. May be read-only and unaligned.
        extent: Set only while a lane carries the bytes elsewhere; empty once received.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview = EMPTY
    extent: Extent | None = None


class TraceContext(msgspec.Struct, array_like=True, frozen=True, weakref=True):
    """What travels with a request that is traced.

    Attributes:
        id: Number of the request's record in its trace, unique on the node.
        parent_id: Record of the request that asked for this one; 0 when a client did.
        has_tensors: Whether tensors are recorded.
        context: In OpenTelemetry mode the propagation context, JSON with ``traceparent`` and
            perhaps ``tracestate``; else empty.
    """

    id: int
    parent_id: int = 0
    has_tensors: bool = False
    context: str = ""


class InferenceRequest(msgspec.Struct, array_like=True):
    """One inference, transport-neutral.

    Attributes:
        model_name: Model asked for.
        model_version: Version asked for; -1 lets the version policy choose.
        id: The client's request id, empty when none.
        inputs: Inputs in the order given.
        outputs: Names of the outputs wanted; empty means all.
        parameters: Custom parameters.
        priority: 0 means the model's default level.
        timeout_us: Queue timeout the client asked for; 0 means none.
        correlation_id: Sequence id; 0 or "" means none.
        flags: SEQUENCE_START | SEQUENCE_END.
        regions: By output name, where in clients' shared memory it shall be written; None unless
            an input or output lies there.
        trace: Set when the request is traced.
        wants_times: Whether the response shall tell what the execution took.
        window: How many responses the caller takes before it asks for more; 0 means any number.
        waited_ns: How long it had waited in queues when it was sent to an instance.
        pins: By the key of a model with a rollout: the version that answers for this request
            wherever it, a step of an ensemble or a call of a model names none; None while no model
            that it may reach has a rollout.
        tenant: Whom it counts for; empty for nobody in particular.
        weight: The tenant's share beside other tenants' in a queue.
        deadline_us: Within which its client wants the answer, from when it came; 0 for any time.
    """

    model_name: str
    model_version: int = -1
    id: str = ""
    inputs: list[Tensor] = []
    outputs: list[str] = []
    parameters: dict[str, ParameterValue] = {}
    priority: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    flags: int = 0
    regions: dict[str, Extent] | None = None
    trace: TraceContext | None = None
    wants_times: bool = False
    window: int = 0
    waited_ns: int = 0
    pins: dict[str, int] | None = None
    tenant: str = ""
    weight: float = 1.0
    deadline_us: int = 0


class InferenceResponse(msgspec.Struct, array_like=True):
    """One response of a model.

    Attributes:
        model_name: Model that answered.
        model_version: Its version, as text.
        id: The request's id.
        outputs: Outputs in the order the model's config lists them.
        parameters: Response parameters.
        compute_ns: What input, inference and output took, for requests that ask for it.
        share_ns: The part of that which is the request's by its rows; 0 when not asked for.
        queue_ns: How long the request waited in queues before, for the same; -1 where nobody says.
    """

    model_name: str
    model_version: str
    id: str = ""
    outputs: list[Tensor] = []
    parameters: dict[str, ParameterValue] = {}
    compute_ns: tuple[int, int, int] | None = None
    share_ns: int = 0
    queue_ns: int = -1


def checked_correlation_id(text: str) -> str:
    """Return a correlation id that is a string.

    Triton: core/src/tritonserver.cc TRITONSERVER_InferenceRequestSetCorrelationIdString @73aad7c

    Raises:
        UnsupportedError: It is too long.
    """
    if len(text.encode()) > _MOST_CORRELATION_ID_BYTES:
        raise UnsupportedError("string correlation ID cannot be longer than 128 characters")
    return text


def id_prefix(request_id: str) -> str:
    """Return the prefix Triton puts before core request errors.

    Triton: core/src/infer_request.h LogRequest @73aad7c
    """
    return f"[request id: {request_id or '<id_unknown>'}] "


def element_count(shape: Sequence[int]) -> int:
    """Return the number of elements of a fully specified shape."""
    return prod(shape)


def count_up_to(shape: Sequence[int], most: int) -> int | None:
    """Return the number of elements of a shape that nobody has checked, or None for over ``most``.

    A product of n dims has 63 n bits, and making it costs n squared; this multiplies until it knows
    enough.
    """
    if 0 in shape:
        return 0
    count = 1
    for dim in shape:
        count *= dim
        if not -most <= count <= most:
            return None
    return count


def tensor_from_numpy(name: str, array: npt.NDArray[np.generic]) -> Tensor:
    """Wrap an array; BYTES arrays are serialised, others are viewed without a copy.

    Raises:
        TypeError: The array's dtype has no V2 datatype.
    """
    datatype = datatype_of(array.dtype)
    if datatype is None:
        raise TypeError(f"tensor '{name}' has numpy dtype {array.dtype}, which V2 cannot carry")
    if datatype == "BYTES":
        return Tensor(name, datatype, array.shape, memoryview(serialize_bytes(array.ravel())))
    if array.size == 0:
        return Tensor(name, datatype, array.shape, EMPTY)
    if array.nbytes < _COPY_BELOW_BYTES:
        return Tensor(name, datatype, array.shape, memoryview(array.tobytes()))
    flat = np.ascontiguousarray(array)
    if datatype == "BF16":
        flat = flat.view(np.uint16)
    return Tensor(name, datatype, array.shape, flat.reshape(-1).data.cast("B"))


def tensor_as_numpy(tensor: Tensor, *, writable: bool = False) -> npt.NDArray[np.generic]:
    """View a tensor as an array of its shape, aligned; copies only when it has to.

    Args:
        tensor: The tensor; ``data`` must hold all its bytes.
        writable: Return memory that the caller may change: the bytes are copied once.

    Returns:
        An array of ``tensor.shape``; BYTES as an object array of ``bytes``.

    Raises:
        ValueError: The bytes do not fit shape and datatype.
    """
    if tensor.datatype == "BYTES":
        elements = deserialize_bytes(tensor.data)
        array: npt.NDArray[np.generic] = np.empty(len(elements), dtype=np.object_)
        array[:] = elements
        return array.reshape(tensor.shape)
    dtype = numpy_dtype(tensor.datatype)
    array = np.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape)
    if writable or not array.flags.aligned:
        array = array.copy()
    return array
