# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs in system shared memory: written once, registered with the server.

Triton: perf_analyzer/src/infer_data_manager_shm.cc @263c5f6
"""

import mmap
import os
from contextlib import suppress
from typing import Final, Protocol

from backends.api.errors import TritonError
from manta_tools.perf.clients.payload import Place, Places
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.rows import DataSet, Row

_DIRECTORY: Final = "/dev/shm/"  # noqa: S108 - where POSIX shared memory is
_ALIGNMENT: Final = 64


class Registry(Protocol):
    """Who tells the server about regions."""

    async def register_memory(self, name: str, key: str, size_bytes: int) -> None:
        """Register a region."""

    async def unregister_memory(self, name: str) -> None:
        """Unregister a region."""


class SystemMemory:
    """Two regions: all inputs of all rows, and the outputs, which all requests share."""

    def __init__(self, registry: Registry, data: DataSet, model: Model, output_bytes: int) -> None:
        """Plan the regions.

        Args:
            registry: Who tells the server.
            data: What goes into the first region.
            model: Whose outputs go into the second one.
            output_bytes: Room for each output.
        """
        self._registry = registry
        self._rows: list[tuple[Row, dict[str, Place]]] = []
        self._input_name = f"manta-perf-{os.getpid()}-inputs"
        self._output_name = f"manta-perf-{os.getpid()}-outputs"
        offset = 0
        for row in (row for stream in data.streams for row in stream):
            places = {}
            for name, content in row.inputs.items():
                places[name] = Place(self._input_name, offset, len(content.raw))
                offset += _aligned(len(content.raw))
            self._rows.append((row, places))
        self._input_bytes = offset
        names = [tensor.name for tensor in model.outputs] if output_bytes else []
        self._outputs = {
            name: Place(self._output_name, index * _aligned(output_bytes), output_bytes)
            for index, name in enumerate(names)
        }
        self._output_bytes = len(names) * _aligned(output_bytes)
        self._made: list[str] = []

    def places(self, row: Row) -> Places:
        """Return where the tensors of a row lie."""
        inputs = next(places for known, places in self._rows if known is row)
        return Places(inputs, self._outputs)

    async def open(self) -> None:
        """Write and register the regions.

        Raises:
            TritonError: The server refuses.
        """
        contents = bytearray(self._input_bytes)
        for row, places in self._rows:
            for name, place in places.items():
                contents[place.offset : place.offset + place.size_bytes] = row.inputs[name].raw
        await self._make(self._input_name, contents)
        await self._make(self._output_name, bytearray(self._output_bytes))

    async def close(self) -> None:
        """Unregister and remove the regions."""
        for name in self._made:
            with suppress(TritonError):
                await self._registry.unregister_memory(name)
            with suppress(FileNotFoundError):
                os.unlink(_DIRECTORY + name)  # noqa: PTH108 - as os.open below
        self._made.clear()

    async def _make(self, name: str, contents: bytearray) -> None:
        if not contents:
            return
        descriptor = os.open(_DIRECTORY + name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._made.append(name)
        try:
            os.ftruncate(descriptor, len(contents))
            with mmap.mmap(descriptor, len(contents)) as mapped:
                mapped[:] = bytes(contents)
        finally:
            os.close(descriptor)
        await self._registry.register_memory(name, f"/{name}", len(contents))


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
