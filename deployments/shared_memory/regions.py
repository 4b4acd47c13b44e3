# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors in clients' shared memory: located, bounded and copied where they are used.

The ingress looks at sizes, and reads strings to check them; an instance reads inputs from the same
objects and writes outputs to them. What crosses the lane is an `Extent` whose source is the
region's, so no tensor bytes do.

Triton: server/src/shared_memory_manager.cc @0395be2
"""

from typing import Final

from backends.api.bytes_tensor import count_elements
from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, TritonError
from backends.api.request import (
    EMPTY,
    Extent,
    InferenceRequest,
    InferenceResponse,
    Tensor,
    count_up_to,
    id_prefix,
)
from deployments.contracts.sinks import ResponseSink
from deployments.settings.server_settings import Region
from deployments.shared_memory.cuda import is_cuda, sized
from deployments.shared_memory.objects import RegionMemory

_SIZE_MAX: Final = 2**64 - 1


def locate(region: Region, extent: Extent) -> Extent:
    """Return where bytes of a region lie in its object.

    Args:
        region: The region.
        extent: Offset in the region and size, as a request gives them.

    Raises:
        InvalidArgumentError: They are not within the region.
    """
    # What gRPC carries as signed is unsigned in Triton.
    offset, size = extent.offset & _SIZE_MAX, extent.size_bytes & _SIZE_MAX
    if offset >= region.size_bytes:
        raise InvalidArgumentError(f"Invalid offset for shared memory region: '{region.name}'")
    if offset + size > _SIZE_MAX:
        raise InvalidArgumentError(
            f"Integer overflow detected: byte_size ({size}) + offset ({offset}) exceeds maximum "
            f"value ({_SIZE_MAX}) for region '{region.name}'"
        )
    if offset + size > region.size_bytes:
        raise InvalidArgumentError(
            f"Invalid offset + byte size for shared memory region: '{region.name}'"
        )
    return Extent(region.source, region.offset + offset, size)


# A request on its way


def locate_regions(
    request: InferenceRequest, regions: dict[str, Region], *, node_id: str = ""
) -> int:
    """Turn the regions a request names into extents of objects.

    Args:
        request: Its inputs' extents and ``regions`` name regions; afterwards they name sources.
        regions: The registered ones.
        node_id: Ray node of this process; empty when regions are of any.

    Returns:
        How many bytes of inputs lie in regions.

    Raises:
        TritonError: A region is unknown or on another node, or bytes are not within it.
    """
    count_bytes = 0
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.extent = _located(tensor.extent, regions, node_id)
            count_bytes += tensor.extent.size_bytes
    wanted = request.regions or {}
    request.regions = {name: _located(extent, regions, node_id) for name, extent in wanted.items()}
    return count_bytes


def look_at_inputs(
    request: InferenceRequest, memory: RegionMemory, *, runs_here: bool = False
) -> None:
    """Give inputs that lie in regions what checks need of them.

    Those read strings only; other inputs get a view of their size without the bytes, unless the
    request is executed in this process.

    Args:
        request: Its inputs' extents are those of `locate_regions`.
        memory: This process's access to objects.
        runs_here: Whether this process needs the bytes of all inputs.

    Raises:
        TritonError: An object is gone or has become too small.
    """
    for tensor in request.inputs:
        extent = tensor.extent
        if extent is None:
            continue
        if runs_here or tensor.datatype == "BYTES":
            tensor.data = memory.read(extent)
            continue
        if not is_cuda(extent.source):
            memory.check(extent)
        tensor.data = sized(extent.size_bytes)


def region_names(request: InferenceRequest) -> frozenset[str]:
    """Return the names of the regions a request uses, before they are resolved."""
    names = {tensor.extent.source for tensor in request.inputs if tensor.extent is not None}
    return frozenset(names.union(extent.source for extent in (request.regions or {}).values()))


def _located(extent: Extent, regions: dict[str, Region], node_id: str) -> Extent:
    region = regions.get(extent.source)
    if region is None:
        raise NotFoundError(f"Unable to find shared memory region: '{extent.source}'")
    if node_id and region.node_id not in ("", node_id):
        raise InvalidArgumentError(
            f"Unable to use shared memory region: '{region.name}': it was registered on node "
            f"{region.node_id} of the cluster, and this request has come to node {node_id}; send "
            f"requests and registrations to the server of the node whose memory they use"
        )
    return locate(region, extent)


def leave_in_regions(request: InferenceRequest) -> None:
    """Take the bytes out of the inputs that an instance reads by itself."""
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.data = EMPTY


def read_inputs(request: InferenceRequest, memory: RegionMemory) -> None:
    """Give inputs that lie in regions their bytes, at the instance.

    Raises:
        InvalidArgumentError: Strings are others than those the ingress has checked.
        TritonError: An object is gone or has become too small.
    """
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.data = memory.read(tensor.extent)
            tensor.extent = None
            if tensor.datatype == "BYTES":
                _check_strings(request, tensor)


def _check_strings(request: InferenceRequest, tensor: Tensor) -> None:
    """Check what a client may have changed: the backend's error would be the whole batch's."""
    expected = count_up_to(tensor.shape, _SIZE_MAX)
    found = count_elements(tensor.data)
    if found != expected:
        seen = f"{found} strings" if found >= 0 else "strings of which one is cut short"
        raise InvalidArgumentError(
            f"{id_prefix(request.id)}input '{tensor.name}' of model '{request.model_name}' was "
            f"changed in its shared memory region while the request was under way: expected "
            f"{expected} strings, got {seen}; write to a region when its requests are answered"
        )


def place_outputs(
    response: InferenceResponse, regions: dict[str, Extent], memory: RegionMemory
) -> None:
    """Write outputs to their regions, at the instance; their bytes are then empty.

    Raises:
        InternalError: An output is larger than the part of the region it was given.
        TritonError: An object is gone or has become too small.
    """
    for tensor in response.outputs:
        extent = regions.get(tensor.name)
        if extent is None:
            continue
        size = tensor.data.nbytes
        if size > extent.size_bytes:
            raise InternalError(
                f"shared memory size specified with the request for output '{tensor.name}' "
                f"({extent.size_bytes} bytes) should be at least {size} bytes to hold the results"
            )
        if size:
            memory.write(Extent(extent.source, extent.offset, size), tensor.data.cast("B"))
        tensor.data = EMPTY


class RegionSink:
    """Writes the outputs of what runs in this process to their regions, and passes them on.

    Args:
        sink: Takes the responses afterwards.
        regions: By output name: where it shall be written.
        memory: This process's access to objects.

    Attributes:
        sink: Takes the responses afterwards.
    """

    __slots__ = ("_error", "_memory", "_regions", "sink")

    def __init__(
        self, sink: ResponseSink, regions: dict[str, Extent], memory: RegionMemory
    ) -> None:
        self.sink = sink
        self._regions = regions
        self._memory = memory
        self._error: TritonError | None = None

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; one whose outputs cannot be written becomes the error."""
        if response is not None and self._error is None:
            try:
                place_outputs(response, self._regions, self._memory)
            except TritonError as error:
                self._error = error
        if self._error is None:
            self.sink.respond(response, final=final)
        elif final:
            self.sink.fail(self._error)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass the error on."""
        if final or self._error is None:
            self.sink.fail(error, final=final)
