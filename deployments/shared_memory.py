# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""POSIX shared memory that clients have registered: opened, bounded and mapped.

The ingress checks a registration and maps inputs to check their contents; an instance maps the same
objects and reads inputs from and writes outputs to them. What crosses the lane is an `Extent` whose
source is the object's key, so no tensor bytes do.

Objects belong to clients, who may unlink, replace or shrink them at any time. So each use looks at
the object again: another inode is mapped anew, and nothing beyond the present size is touched.

Triton: server/src/shared_memory_manager.cc @e1db8a6
"""

import mmap
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, TritonError
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse
from deployments.server_settings import Region

_DIRECTORY: Final = "/dev/shm/"  # noqa: S108 - where POSIX shared memory is
_KEY: Final = re.compile(r"/?[^/\x00]{1,254}")
_RESERVED_PREFIX: Final = "triton_python_backend_shm_region_"
_MAPPING_LIMIT: Final = 256


def check_registration(region: Region) -> None:
    """Check that an object exists and holds the region.

    Raises:
        InvalidArgumentError: The key is no name of an object, or the region does not fit into it.
        InternalError: The object cannot be opened.
    """
    name = region.key.removeprefix("/")
    refusal = f"cannot register shared memory region '{region.name}'"
    if _KEY.fullmatch(region.key) is None or name in (".", "..", ""):
        raise InvalidArgumentError(f"{refusal} - invalid shm key '{region.key}'")
    if name.startswith(_RESERVED_PREFIX):
        raise InvalidArgumentError(
            f"{refusal} with key '{region.key}' as the key contains the reserved prefix "
            f"'{_RESERVED_PREFIX}'"
        )
    try:
        descriptor = os.open(_DIRECTORY + name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise _cannot_open(region.key) from None
    try:
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    failed = f"failed to register shared memory region '{region.name}'"
    if region.offset + region.size_bytes > size:
        raise InvalidArgumentError(f"{failed}: invalid args")
    if region.size_bytes == 0 or region.offset % mmap.PAGESIZE:
        # Triton maps the region by itself, and a mapping begins with a whole page.
        raise InvalidArgumentError(f"{failed}: unable to process address spaceInvalid argument")


def locate(region: Region, extent: Extent) -> Extent:
    """Return where bytes of a region lie in its object.

    Args:
        region: The region.
        extent: Offset in the region and size, as a request gives them.

    Raises:
        InvalidArgumentError: They are not within the region.
    """
    last = max(region.size_bytes - 1, 0)
    offset, size = extent.offset, extent.size_bytes
    if not 0 <= offset <= last:
        raise InvalidArgumentError(f"Invalid offset for shared memory region: '{region.name}'")
    # A size of zero at the start wraps around in Triton and is refused; elsewhere it is not.
    if size < 0 or offset + size - 1 > last or (size == 0 and offset == 0):
        raise InvalidArgumentError(
            f"Invalid offset + byte size for shared memory region: '{region.name}'"
        )
    return Extent(region.key, region.offset + offset, size)


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A mapped object."""

    device: int
    inode: int
    size_bytes: int
    view: memoryview


class RegionMaps:
    """This process's mappings of clients' objects, the latest used ones kept."""

    __slots__ = ("_mappings",)

    def __init__(self) -> None:
        # The latest used one last.
        self._mappings: dict[str, _Mapping] = {}

    @property
    def mapping_count(self) -> int:
        """Objects mapped."""
        return len(self._mappings)

    def view(self, extent: Extent) -> memoryview:
        """Return the bytes of an extent; valid as long as the view lives.

        Args:
            extent: Key, offset in the object and size.

        Raises:
            InternalError: The object is gone.
            InvalidArgumentError: It has become too small.
        """
        key = extent.source
        mapping = self._mapping(key)
        end = extent.offset + extent.size_bytes
        if extent.offset < 0 or extent.size_bytes < 0 or end > mapping.size_bytes:
            raise InvalidArgumentError(
                f"Invalid offset + byte size for shared memory region with key '{key}': bytes "
                f"{extent.offset} to {end} of an object that has {mapping.size_bytes}; register it "
                f"again with its present size"
            )
        return mapping.view[extent.offset : end]

    def forget_others(self, keys: Collection[str]) -> None:
        """Drop the mappings of other objects; memory goes back when no view of it is left."""
        for key in [key for key in self._mappings if key not in keys]:
            self._mappings.pop(key, None)

    def _mapping(self, key: str) -> _Mapping:
        name = key.removeprefix("/")
        if _KEY.fullmatch(key) is None or name in (".", "..", ""):
            raise _cannot_open(key)
        known = self._mappings.get(key)
        if known is not None:
            try:
                now = os.lstat(_DIRECTORY + name)
            except OSError:
                self._mappings.pop(key, None)
                raise _cannot_open(key) from None
            is_same = (now.st_dev, now.st_ino, now.st_size) == (
                known.device,
                known.inode,
                known.size_bytes,
            )
            if is_same:
                return self._keep(key, known)
        return self._keep(key, _map(key, name))

    def _keep(self, key: str, mapping: _Mapping) -> _Mapping:
        # Single steps only: `forget` may come from another thread.
        self._mappings.pop(key, None)
        self._mappings[key] = mapping
        if len(self._mappings) > _MAPPING_LIMIT:
            self._mappings.pop(next(iter(self._mappings)), None)
        return mapping


def _map(key: str, name: str) -> _Mapping:
    try:
        descriptor = os.open(_DIRECTORY + name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise _cannot_open(key) from None
    try:
        status = os.fstat(descriptor)
        size = status.st_size
        view = memoryview(mmap.mmap(descriptor, size)) if size else EMPTY
    except (OSError, ValueError) as error:
        raise InternalError(f"Unable to map shared memory region: '{key}': {error}") from None
    finally:
        os.close(descriptor)
    return _Mapping(status.st_dev, status.st_ino, size, view)


def _cannot_open(key: str) -> TritonError:
    return InternalError(f"Unable to open shared memory region: '{key}'")


# A request on its way


def resolve_regions(
    request: InferenceRequest, regions: dict[str, Region], maps: RegionMaps
) -> None:
    """Turn the regions a request names into extents of objects, and give inputs their bytes.

    Args:
        request: Its inputs' extents and ``regions`` name regions; afterwards they name keys.
        regions: The registered ones.
        maps: This process's mappings.

    Raises:
        TritonError: A region is unknown, or bytes are not within it.
    """
    for tensor in request.inputs:
        if tensor.extent is not None:
            tensor.extent = _located(tensor.extent, regions)
            tensor.data = maps.view(tensor.extent)
    wanted = request.regions or {}
    request.regions = {name: _located(extent, regions) for name, extent in wanted.items()}


def _located(extent: Extent, regions: dict[str, Region]) -> Extent:
    region = regions.get(extent.source)
    if region is None:
        raise NotFoundError(f"Unable to find shared memory region: '{extent.source}'")
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
            target = maps.view(Extent(extent.source, extent.offset, size))
            target[:] = tensor.data.cast("B")
        tensor.data = EMPTY
