# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How an infer request is run, so that what fails is told and nobody's memory is kept.

With OpenVINO 2026.4 ``infer()`` returns as if all were well when an operation of a model with
dynamic shapes refuses what it is given, if the stream it runs on has one thread: the outputs then
are those of the request before, and what was left undone may crash the process later. How many
threads a stream has depends on the cores the process may use, too. ``infer()`` is safe in the
caller's own thread (no streams), and ``start_async()`` with ``wait()`` is anywhere, which costs two
switches of threads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import openvino

from backends.framework.inputs import Array
from backends.openvino.properties import CPU, STREAMS

Run = Callable[[Any], None]

# A view that looks writable costs more than to copy so much.
_COPIED_BELOW_BYTES: Final = 4096


def run_of(device: str, wanted: Mapping[str, object]) -> Run:
    """Return what runs an infer request to its end and raises whatever goes wrong.

    Args:
        device: The device its model was compiled for.
        wanted: The properties it was compiled with.
    """
    return _in_turn if device == CPU and wanted.get(STREAMS) == "0" else _apart


def _in_turn(request: Any) -> None:
    request.infer()


def _apart(request: Any) -> None:
    request.start_async()
    request.wait()


class InferRequest:
    """An infer request that holds memory of its own between inferences, and no caller's.

    Args:
        request: OpenVINO's.
        run: Runs it; see `run_of`.
        inputs: The model's inputs.

    Attributes:
        has_failed: Whether an inference has failed since this was made. With OpenVINO 2026.4 such
            a one leaves shapes behind in the compiled model, which its other infer requests share:
            operations may take the next request's tensors to have them, refuse it, or write past
            the end of an output.
    """

    def __init__(self, request: Any, run: Run, inputs: Sequence[Any]) -> None:
        self._request = request
        self._run = run
        self._own = [_own_tensor(request, index, port) for index, port in enumerate(inputs)]
        self.has_failed = False

    def infer(self, feed: Mapping[int, Array], outputs: Sequence[int]) -> list[Array]:
        """Run the model once.

        Args:
            feed: An array for every input, by its index.
            outputs: Indices of the outputs.

        Returns:
            A copy of each of these outputs.

        Raises:
            RuntimeError: OpenVINO refuses an array, or has failed.
        """
        request = self._request
        # A tensor that shares memory does not keep its array alive.
        arrays = [(index, _writable(array)) for index, array in feed.items()]
        try:
            for index, array in arrays:
                request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
            try:
                self._run(request)
            except RuntimeError:
                self.has_failed = True
                raise
            # The next inference writes where this one's outputs are.
            return [request.get_output_tensor(index).data.copy() for index in outputs]
        finally:
            # The callers' memory goes with their requests.
            for index, own in enumerate(self._own):
                request.set_input_tensor(index, own)

    def reset_state(self) -> None:
        """Give the model's variables their first values."""
        self._request.reset_state()

    def take_state(self, other: "InferRequest") -> None:
        """Give the model's variables the values they have in another request of it."""
        states = {state.name: state.state for state in other._request.query_state()}  # noqa: SLF001 - one too
        for state in self._request.query_state():
            state.state = states[state.name]


def _own_tensor(request: Any, index: int, port: Any) -> Any:
    """Return what an input points at between inferences: of dims that vary, the least."""
    shape = port.get_partial_shape()
    if not shape.is_dynamic:
        return request.get_input_tensor(index)
    least = [0] if shape.rank.is_dynamic else [dim.get_min_length() for dim in shape]
    return openvino.Tensor(port.get_element_type(), openvino.Shape(least))


class _Writable:
    """Memory that numpy takes for writable, which is what OpenVINO asks of what it only reads."""

    def __init__(self, array: Array) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._owner = array


def _writable(array: Array) -> Array:
    flags = array.flags
    if flags.writeable and flags.c_contiguous:
        return array
    if array.nbytes < _COPIED_BELOW_BYTES or not flags.c_contiguous:
        return array.copy()
    return np.asarray(_Writable(array))
