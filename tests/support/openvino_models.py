# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Builds small models in OpenVINO's own format, seeded."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import openvino
from openvino import Layout, PartialShape, opset13
from openvino.op.util import Variable, VariableInfo


@cache
def _core() -> openvino.Core:
    """One for the process: freed in another order than made, they leave a stack for signals."""
    return openvino.Core()


def parameter(name: str, dtype: type, shape: Sequence[int], layout: str = "") -> openvino.Node:
    """Return an input; -1 in its shape may vary."""
    node = opset13.parameter(list(shape), dtype, name=name)
    node.output(0).set_names({name})
    if layout:
        node.set_layout(Layout(layout))
    return node


def result(node: openvino.Node, *names: str, layout: str = "") -> openvino.Node:
    """Return an output with these names."""
    node.output(0).set_names(set(names))
    found = opset13.result(node)
    if layout:
        found.set_layout(Layout(layout))
    return found


def save(
    path: str, outputs: list[openvino.Node], inputs: list[openvino.Node], **fields: Any
) -> None:
    """Write the IR of a model, and its weights beside it."""
    model = openvino.Model(outputs, fields.pop("sinks", []), inputs, "test")
    openvino.save_model(model, path, compress_to_fp16=False)


def save_add_sub(path: str, *, batch: int = -1, dtype: type = np.int32, layout: str = "") -> None:
    """OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1, of shape [batch, 4]."""
    a, b = (parameter(name, dtype, [batch, 4], layout) for name in ("INPUT0", "INPUT1"))
    outputs = [
        result(opset13.add(a, b), "OUTPUT0", layout=layout),
        result(opset13.subtract(a, b), "OUTPUT1", layout=layout),
    ]
    save(path, outputs, [a, b])


def save_layers(
    path: str, *, batch: int = -1, width: int = 32, keeps_batch: bool = True, seed: int = 0
) -> None:
    """Y = three layers over X [batch, width]; without ``keeps_batch`` the size is in the graph."""
    seeded = np.random.default_rng(seed)
    x = parameter("X", np.float32, [batch, width])
    y = x
    for _ in range(3):
        weights = seeded.standard_normal((width, width)).astype(np.float32) / width**0.5
        y = opset13.relu(opset13.matmul(y, opset13.constant(weights), False, False))
    if not keeps_batch:
        y = opset13.reshape(y, opset13.constant(np.array([batch, width], np.int64)), False)
    save(path, [result(y, "Y")], [x])


def save_running_sum(path: str) -> None:
    """Y [1, 1] = the sum of all X [1, 1] since the state was reset."""
    info = VariableInfo()
    info.data_shape, info.data_type = PartialShape([1, 1]), openvino.Type.f32
    info.variable_id = "sum"
    variable = Variable(info)
    x = parameter("X", np.float32, [-1, 1])
    zero = opset13.constant(np.zeros((1, 1), np.float32))
    total = opset13.add(opset13.read_value(zero, variable), x)
    save(path, [result(total, "Y")], [x], sinks=[opset13.assign(total, variable)])


def save_sum_of_products(path: str) -> None:
    """Y [1, 1] = the sum of all A [1, n] @ B [n, 1] since the state was reset."""
    info = VariableInfo()
    info.data_shape, info.data_type = PartialShape([1, 1]), openvino.Type.f32
    info.variable_id = "sum"
    variable = Variable(info)
    a, b = parameter("A", np.float32, [1, -1]), parameter("B", np.float32, [-1, 1])
    zero = opset13.constant(np.zeros((1, 1), np.float32))
    product = opset13.matmul(a, b, False, False)
    total = opset13.add(opset13.read_value(zero, variable), product)
    save(path, [result(total, "Y")], [a, b], sinks=[opset13.assign(total, variable)])


def answers(path: str, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what OpenVINO itself makes of a feed, by name."""
    compiled = _core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    request.infer(feed)
    return {
        name: request.get_tensor(name).data.copy()
        for port in compiled.outputs
        for name in port.names
    }
