# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request's memory, which is another request's after the answer."""

import gc

import numpy as np

from backends.api.errors import TritonError
from tests.support.recording import RecordingRequest

_ALIGNMENT = 64


class RequestMemory:
    """Holds the bytes of a request's inputs, aligned so that frameworks need no copy of them.

    Args:
        recording: The request, not executed yet.
    """

    def __init__(self, recording: RecordingRequest) -> None:
        self._recording = recording
        self._parts = [_Part(tensor.data) for tensor in recording.request.inputs]
        for tensor, part in zip(recording.request.inputs, self._parts, strict=True):
            tensor.data = part.view()

    def pass_on(self, pattern: bytes) -> None:
        """Write a pattern over the bytes of an answered request.

        Raises:
            BufferError: Something still has a view of them.
        """
        # An error holds the frames that it came through.
        for answer in self._recording.answers:
            if isinstance(answer, TritonError):
                answer.with_traceback(None)
                answer.__cause__ = answer.__context__ = None
        self._recording.request.inputs.clear()
        gc.collect()
        for part in self._parts:
            part.fill(pattern)


class _Part:
    def __init__(self, data: memoryview) -> None:
        self._bytes = bytearray(data.nbytes + _ALIGNMENT)
        self._size = data.nbytes
        self._start = -_address(self._bytes) % _ALIGNMENT
        self._bytes[self._start : self._start + self._size] = data

    def view(self) -> memoryview:
        return memoryview(self._bytes)[self._start : self._start + self._size]

    def fill(self, pattern: bytes) -> None:
        filled = (pattern * (self._size // len(pattern) + 1))[: self._size]
        self._bytes[self._start : self._start + self._size] = filled
        # Refused where there is a view.
        self._bytes.append(0)


def _address(memory: bytearray) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
