# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors in clients' shared memory: located, bounded and mapped.

The ingress maps inputs to check their contents; an instance maps the same objects and reads inputs
from and writes outputs to them. What crosses the lane is an `Extent` whose source is the region's,
so no tensor bytes do. Memory of GPUs (`deployments.shared_memory.cuda`) is copied where it is used.

Objects belong to clients, who may shrink them at any time, so each use looks at the present size.

Triton: server/src/shared_memory_manager.cc @0395be2
"""

import mmap
import os
from collections.abc import Callable, Collection
from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, TritonError
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.settings.server_settings import Region
from deployments.shared_memory.cuda import CudaMaps, is_cuda, sized
from deployments.shared_memory.system import key_of, open_source

_MAPPING_LIMIT: Final = 256
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


class _Mapping:
    """A mapped object; the file knows its present size."""

    __slots__ = ("file", "view")

    def __init__(self, file: mmap.mmap, view: memoryview) -> None:
        self.file = file
        self.view = view


class RegionMaps:
    """This process's mappings of clients' objects, the latest used ones kept.

    Args:
        cuda: Its mappings of GPUs' memory; without them, new ones.

    Attributes:
        cuda: This process's mappings of GPUs' memory.
    """

    __slots__ = ("_mappings", "cuda")

    def __init__(self, cuda: CudaMaps | None = None) -> None:
        self.cuda = cuda or CudaMaps()
        # The latest used one last.
        self._mappings: dict[str, _Mapping] = {}

    @property
    def mapping_count(self) -> int:
        """Objects mapped."""
        return len(self._mappings)

    def view(self, extent: Extent) -> memoryview:
        """Return the bytes of an extent, a copy of them when a GPU has them.

        Args:
            extent: Source of a region, offset in its object and size.

        Raises:
            InternalError: The object is gone.
            InvalidArgumentError: It has become too small.
        """
        if is_cuda(extent.source):
            return self.cuda.read(extent)
        return self._mapped(extent)

    def write(self, extent: Extent, data: memoryview) -> None:
        """Write bytes to an extent of their size.

        Raises:
            TritonError: As `view`.
        """
        if is_cuda(extent.source):
            self.cuda.write(extent, data)
        else:
            self._mapped(extent)[:] = data

    def _mapped(self, extent: Extent) -> memoryview:
        source = extent.source
        end = extent.offset + extent.size_bytes
        mapping = self._mappings.get(source)
        if mapping is None or end > mapping.view.nbytes:
            mapping = _map(source)
        self._keep(source, mapping)
        size = min(mapping.view.nbytes, mapping.file.size())
        if extent.offset < 0 or extent.size_bytes < 0 or end > size:
            raise InvalidArgumentError(
                f"Invalid offset + byte size for shared memory region with key '{key_of(source)}': "
                f"bytes {extent.offset} to {end} of an object that has {size}; register it "
                f"again with its present size"
            )
        return mapping.view[extent.offset : end]

    def forget_others(self, sources: Collection[str]) -> None:
        """Drop the mappings of other objects; memory goes back when no view of it is left."""
        for source in [source for source in self._mappings if source not in sources]:
            self._mappings.pop(source, None)
        self.cuda.forget_others(sources)

    def _keep(self, source: str, mapping: _Mapping) -> None:
        # Single steps only: `forget_others` may come from another thread.
        self._mappings.pop(source, None)
        self._mappings[source] = mapping
        if len(self._mappings) > _MAPPING_LIMIT:
            self._mappings.pop(next(iter(self._mappings)), None)


def _map(source: str) -> _Mapping:
    descriptor = open_source(source)
    try:
        file = mmap.mmap(descriptor, 0)
    except (OSError, ValueError) as error:
        raise InternalError(
            f"Unable to map shared memory region: '{key_of(source)}': {error}"
        ) from None
    finally:
        os.close(descriptor)
    return _Mapping(file, memoryview(file))


# A request on its way


def resolve_regions(
    request: InferenceRequest,
    regions: dict[str, Region],
    maps: RegionMaps,
    *,
    node_id: str = "",
    runs_here: bool = False,
) -> None:
    """Turn the regions a request names into extents of objects, and give inputs their bytes.

    Of memory of GPUs only strings are copied here, since checks read them; other inputs get a view
    of their size without the bytes, unless the request is executed in this process.

    Args:
        request: Its inputs' extents and ``regions`` name regions; afterwards they name sources.
        regions: The registered ones.
        maps: This process's mappings.
        node_id: Ray node of this process; empty when regions are of any.
        runs_here: Whether this process needs the bytes of all inputs.

    Raises:
        TritonError: A region is unknown or on another node, or bytes are not within it.
    """
    for tensor in request.inputs:
        if tensor.extent is not None:
            extent = tensor.extent = _located(tensor.extent, regions, node_id)
            if runs_here or tensor.datatype == "BYTES" or not is_cuda(extent.source):
                tensor.data = maps.view(extent)
            else:
                tensor.data = sized(extent.size_bytes)
    wanted = request.regions or {}
    request.regions = {name: _located(extent, regions, node_id) for name, extent in wanted.items()}


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
    """Take the bytes out of the inputs that an instance maps by itself."""
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.data = EMPTY


def map_inputs(request: InferenceRequest, maps: RegionMaps) -> None:
    """Give inputs that lie in regions their bytes, at the instance.

    Raises:
        TritonError: An object is gone or has become too small.
    """
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.data = maps.view(tensor.extent)
            tensor.extent = None


def place_outputs(
    response: InferenceResponse, regions: dict[str, Extent], maps: RegionMaps
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
            maps.write(Extent(extent.source, extent.offset, size), tensor.data.cast("B"))
        tensor.data = EMPTY


class RegionSink:
    """Writes the outputs of what runs in this process to their regions, and passes them on.

    Args:
        sink: Takes the responses afterwards.
        regions: By output name: where it shall be written.
        maps: This process's mappings.
        on_end: Called right before the terminal outcome is passed on.

    Attributes:
        sink: Takes the responses afterwards.
    """

    __slots__ = ("_error", "_maps", "_on_end", "_regions", "sink")

    def __init__(
        self,
        sink: ResponseSink,
        regions: dict[str, Extent],
        maps: RegionMaps,
        on_end: Callable[[], None],
    ) -> None:
        self.sink = sink
        self._on_end = on_end
        self._regions = regions
        self._maps = maps
        self._error: TritonError | None = None

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; one whose outputs cannot be written becomes the error."""
        if response is not None and self._error is None:
            try:
                place_outputs(response, self._regions, self._maps)
            except TritonError as error:
                self._error = error
        if final:
            self._on_end()
        if self._error is None:
            self.sink.respond(response, final=final)
        elif final:
            self.sink.fail(self._error)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass the error on."""
        if final:
            self._on_end()
        if final or self._error is None:
            self.sink.fail(error, final=final)
