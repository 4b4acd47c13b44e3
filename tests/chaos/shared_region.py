# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A client's region of system shared memory, with the tensors of one question at a time."""

import json
import mmap
from pathlib import Path
from typing import Final

import numpy as np

from tests.chaos.questions import Question
from tests.support.busy_clients import HttpPeer

_FOLDER: Final = Path("/dev/shm")
_PLACE_BYTES: Final = 4096
_PLACES: Final = {"LEFT": 0, "RIGHT": _PLACE_BYTES, "SUM": 2 * _PLACE_BYTES}


class SharedRegion:
    """A region of three places: both numbers and the sum.

    Args:
        name: Of the region and of the object.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = _FOLDER / name
        self._path.write_bytes(bytes(len(_PLACES) * _PLACE_BYTES))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def register(self, address: str, timeout_s: float) -> None:
        """Register it.

        Raises:
            AssertionError: The server does not take it.
        """
        body = {"key": f"/{self.name}", "offset": 0, "byte_size": len(self._map)}
        self._post(address, "register", json.dumps(body).encode(), timeout_s)

    def unregister(self, address: str, timeout_s: float) -> None:
        """Unregister it and take the object away."""
        try:
            self._post(address, "unregister", b"", timeout_s)
        finally:
            self._map.close()
            self._path.unlink()

    def _post(self, address: str, verb: str, body: bytes, timeout_s: float) -> None:
        peer = HttpPeer(address, timeout_s)
        try:
            path = f"/v2/systemsharedmemory/region/{self.name}/{verb}"
            status, answer = peer.exchange("POST", path, body)
        finally:
            peer.close()
        assert status == 200, f"{verb} of region '{self.name}': {status} {answer[:200]!r}"

    def put(self, question: Question) -> None:
        """Write the question's inputs, and nothing where the sum will be."""
        for name, array in question.inputs.items():
            content = array.tobytes()
            self._map[_PLACES[name] : _PLACES[name] + len(content)] = content
        self._map[_PLACES["SUM"] : _PLACES["SUM"] + _PLACE_BYTES] = bytes(_PLACE_BYTES)

    def get(self, expected: np.ndarray) -> np.ndarray:
        """Return the sum."""
        at = _PLACES["SUM"]
        content = bytes(self._map[at : at + expected.nbytes])
        return np.frombuffer(content, expected.dtype).reshape(expected.shape)

    def parameters(self, name: str, size_bytes: int) -> dict[str, str | int]:
        """Return the parameters of a tensor that lies here."""
        return {
            "shared_memory_region": self.name,
            "shared_memory_byte_size": size_bytes,
            "shared_memory_offset": _PLACES[name],
        }
