# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""CUDA shared memory of clients: checked when registered, opened by each process that uses it.

A client sends the IPC handle of an allocation and the number of its GPU. Ray shows an instance only
its own GPUs, under other numbers, so what travels is the GPU's UUID.

Backends take host memory: inputs are copied from the GPU, outputs to it.

Triton: server/src/shared_memory_manager.cc RegisterCUDASharedMemory @e1db8a6
"""

import logging
import secrets
import threading
from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import Extent
from deployments.settings.server_settings import HANDLE_BYTES
from deployments.shared_memory.cuda_driver import (
    CudaDriver,
    CudaError,
    CudaUnavailableError,
    DeviceMemory,
    load_driver,
)

# No source of a POSIX object begins with it.
_MARK: Final = "\x00cuda"
_SEPARATOR: Final = "\x00"
_MAPPING_LIMIT: Final = 256
_REFUSED: Final = "failed to register shared memory region: invalid args"

_log = logging.getLogger(__name__)


def is_cuda(source: str) -> bool:
    """Whether a region's source is memory of a GPU."""
    return source.startswith(_MARK)


def sized(size_bytes: int) -> memoryview:
    """Return a read-only view of a size that holds no bytes, for checks of sizes alone."""
    return np.broadcast_to(np.zeros(1, np.uint8), (size_bytes,)).data


class CudaMaps:
    """This process's mappings of clients' GPU memory, closed when their regions are gone.

    Methods may be called from any thread; one that closes a mapping waits for those that use it.

    Args:
        load: Returns the driver, at first use.
    """

    __slots__ = ("_driver", "_known", "_load", "_lock", "_mappings")

    def __init__(self, load: Callable[[], CudaDriver] = load_driver) -> None:
        self._load = load
        self._driver: CudaDriver | None = None
        self._lock = threading.Lock()
        # The latest used one last.
        self._mappings: dict[str, DeviceMemory] = {}
        self._known: Collection[str] = ()

    @property
    def mapping_count(self) -> int:
        """Allocations mapped."""
        return len(self._mappings)

    def check(self, name: str, handle: bytes, device_id: int, size_bytes: int) -> str:
        """Return the source of a region to be registered; opens and closes it.

        Args:
            name: The region's name.
            handle: The client's ``cudaIpcMemHandle_t``.
            device_id: The client's number of the GPU: CUDA's own, of all of the node's.
            size_bytes: Size of the region.

        Raises:
            InvalidArgumentError: CUDA cannot be used, the handle cannot be opened, or the
                allocation is smaller than the region.
        """
        if len(handle) != HANDLE_BYTES:
            raise InvalidArgumentError(_REFUSED)
        with self._lock:
            try:
                driver = self._loaded()
                uuids = driver.device_uuids()
                if not 0 <= device_id < len(uuids):
                    raise InvalidArgumentError(
                        f"{_REFUSED}: region '{name}' has device_id {device_id}, and this node "
                        f"has {len(uuids)} GPUs, numbered from 0"
                    )
                memory = driver.open(device_id, handle)
                driver.close(memory)
            except CudaUnavailableError as error:
                raise InvalidArgumentError(
                    f"failed to register CUDA shared memory region: '{name}', GPUs not supported: "
                    f"{error}"
                ) from None
            except CudaError as error:
                raise InvalidArgumentError(
                    f"{_REFUSED}: region '{name}' on GPU {device_id}: {error}; the client has to "
                    f"run on this node, in another process, and keep the memory allocated"
                ) from None
        if size_bytes > memory.size_bytes:
            raise InvalidArgumentError(
                f"failed to register shared memory region '{name}': invalid args: byte_size is "
                f"{size_bytes}, the allocation has {memory.size_bytes} bytes"
            )
        # One registration's source is no other's: the same handle may come again for other memory.
        parts = (_MARK, uuids[device_id], handle.hex(), secrets.token_hex(8), name)
        return _SEPARATOR.join(parts)

    def read(self, extent: Extent) -> memoryview:
        """Return a copy of the bytes of an extent, in host memory.

        Raises:
            InternalError: They cannot be read.
            InvalidArgumentError: They are not within the allocation.
        """
        target = np.empty(extent.size_bytes, np.uint8).data
        self._use(extent, lambda driver, memory: driver.copy_out(memory, extent.offset, target))
        return target

    def write(self, extent: Extent, data: memoryview) -> None:
        """Write bytes to an extent of their size.

        Raises:
            InternalError: They cannot be written.
            InvalidArgumentError: The extent is not within the allocation.
        """
        self._use(extent, lambda driver, memory: driver.copy_in(memory, extent.offset, data))

    def forget_others(self, sources: Collection[str]) -> None:
        """Close what is not registered any more."""
        known = frozenset(filter(is_cuda, sources))
        if not known and not self._known and not self._mappings:
            return
        with self._lock:
            self._known = known
            for source in [each for each in self._mappings if each not in known]:
                self._close(source)

    def _use(self, extent: Extent, copy: Callable[[CudaDriver, DeviceMemory], None]) -> None:
        source = extent.source
        with self._lock:
            try:
                driver = self._loaded()
                memory = self._opened(driver, source)
                end = extent.offset + extent.size_bytes
                if extent.offset < 0 or extent.size_bytes < 0 or end > memory.size_bytes:
                    raise InvalidArgumentError(
                        f"Invalid offset + byte size for shared memory region: '{_name_of(source)}'"
                    )
                if extent.size_bytes:
                    copy(driver, memory)
            except CudaError as error:
                raise InternalError(
                    f"Unable to use CUDA shared memory region: '{_name_of(source)}': {error}"
                ) from None
            finally:
                # A request may outlive its region's registration, and must not leave it open.
                if source in self._mappings and source not in self._known:
                    self._close(source)

    def _opened(self, driver: CudaDriver, source: str) -> DeviceMemory:
        memory = self._mappings.pop(source, None)
        if memory is None:
            _, _, uuid, handle, _, name = source.split(_SEPARATOR, 5)
            memory = driver.open(_device_of(driver, uuid, name), bytes.fromhex(handle))
        self._mappings[source] = memory
        if len(self._mappings) > _MAPPING_LIMIT:
            self._close(next(iter(self._mappings)))
        return memory

    def _close(self, source: str) -> None:
        memory = self._mappings.pop(source)
        try:
            self._loaded().close(memory)
        except CudaError as error:
            _log.warning("CUDA shared memory region '%s': %s", _name_of(source), error)

    def _loaded(self) -> CudaDriver:
        if self._driver is None:
            self._driver = self._load()
        return self._driver


def _device_of(driver: CudaDriver, uuid: str, name: str) -> int:
    uuids = driver.device_uuids()
    if uuid in uuids:
        return uuids.index(uuid)
    raise InternalError(
        f"Unable to use CUDA shared memory region: '{name}': its memory is on {uuid}, and the "
        f"process that needs it sees only {', '.join(uuids)}; register memory of a GPU that the "
        f"model's instances run on"
    )


def _name_of(source: str) -> str:
    return source.split(_SEPARATOR, 5)[5]
