# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Small ONNX graphs for tests."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

FLOAT, INT32, STRING = TensorProto.FLOAT, TensorProto.INT32, TensorProto.STRING


def value(name: str, kind: int, shape: Sequence[str | int | None]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
) -> None:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def save_add_sub(path: str, *, batch: str | int | None = "N", dims: Sequence[int] = (4,)) -> None:
    shape: list[str | int | None] = [batch, *dims] if batch is not None else list(dims)
    save(
        path,
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        [value("INPUT0", INT32, shape), value("INPUT1", INT32, shape)],
        [value("OUTPUT0", INT32, shape), value("OUTPUT1", INT32, shape)],
    )
