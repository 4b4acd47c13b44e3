# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How an infer request is run, so that what fails is told.

With OpenVINO 2026.4 ``infer()`` returns as if all were well when an operation of a model with
dynamic shapes refuses what it is given, if the stream it runs on has one thread: the outputs then
are those of the request before. It raises when it runs in the caller's own thread (no streams), and
``start_async()`` and ``wait()`` always do, which costs two switches of threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from backends.openvino.properties import CPU, STREAMS

Run = Callable[[Any], None]


def run_of(core: Any, device: str, wanted: dict[str, object]) -> Run:
    """Return what runs an infer request to its end and raises whatever goes wrong.

    Args:
        core: The ``openvino.Core`` the model was compiled with.
        device: The device it was compiled for.
        wanted: The properties it was compiled with.
    """
    streams = str(wanted.get(STREAMS, ""))
    if device == CPU and (streams == "0" or (streams == "1" and _tells_failures(core, wanted))):
        return _in_turn
    return _apart


def _in_turn(request: Any) -> None:
    request.infer()


def _apart(request: Any) -> None:
    request.start_async()
    request.wait()


def _tells_failures(core: Any, wanted: dict[str, object]) -> bool:
    """Whether ``infer()`` raises, tried with a product of matrices that do not fit."""
    left, right = (opset13.parameter([-1, -1], np.float32) for _ in range(2))
    product = opset13.matmul(left, right, False, False)
    model = openvino.Model([opset13.result(product)], [left, right], "probe")
    request = core.compile_model(model, CPU, wanted).create_infer_request()
    arrays = [np.zeros(shape, np.float32) for shape in ((1, 2), (3, 1))]
    for index, array in enumerate(arrays):
        request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
    try:
        request.infer()
    except RuntimeError:
        return True
    return False
