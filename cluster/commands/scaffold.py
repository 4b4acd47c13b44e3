# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta init``: the folder of a new model, which loads as it is written."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backends.api.errors import AlreadyExistsError, InvalidArgumentError
from cluster.commands.client.command_line import UsageError, argument, command, print_json

_CONFIG: Final = """backend: "python"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] } ]
# Requests that come together are executed together.
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_MODEL: Final = '''"""The model: what it loads, and what it makes of its inputs."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        """Load what requests need, once for each instance."""
        self.factor = np.float32(2)

    def execute(self, requests):
        """Answer each request; X is FP32[batch, 4]."""
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            y = pb_utils.Tensor("Y", x * self.factor)
            responses.append(pb_utils.InferenceResponse([y]))
        return responses
'''
_ONNX_CONFIG: Final = """backend: "onnxruntime"
# Inputs and outputs are read from model.onnx; its first dimension has to be free to batch.
max_batch_size: 8
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""

# By backend: the text of each file. A graph of ONNX is written by `_onnx_graph`.
_FILES: Final[Mapping[str, Mapping[str, str]]] = {
    "python": {"config.pbtxt": _CONFIG, "1/model.py": _MODEL},
    "onnx": {"config.pbtxt": _ONNX_CONFIG},
}
_GRAPH: Final = "1/model.onnx"
# The largest length that a protocol buffer has in one byte.
_ONE_BYTE: Final = 0x7F


@command(
    "init",
    "Write the folder of a new model into a repository.",
    argument("name", help="the model, or the path of its folder"),
    argument("--backend", choices=tuple(_FILES), default="python"),
    argument(
        "--model", metavar="FILE", help="for onnx: your model.onnx; an example if it is left out"
    ),
    argument(
        "--repository", default="models", metavar="DIR", help="where a bare name goes (%(default)s)"
    ),
    asks_server=False,
)
def main(given: argparse.Namespace) -> None:
    """Run ``manta init``."""
    path = Path(given.name)
    folder = path if len(path.parts) > 1 else Path(given.repository, given.name)
    if given.model and given.backend != "onnx":
        raise UsageError("--model is for --backend onnx.")
    if path.name in {"", ".."}:
        raise InvalidArgumentError(f"'{given.name}' is no name of a model")
    if folder.exists():
        raise AlreadyExistsError(f"'{folder}' is there already; give another name")
    files: dict[str, bytes] = {name: text.encode() for name, text in _FILES[given.backend].items()}
    if given.backend == "onnx":
        files[_GRAPH] = Path(given.model).read_bytes() if given.model else _onnx_graph()
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    serve = f"manta serve --model-repository {folder.parent}"
    if given.json:
        print_json({"folder": str(folder), "files": sorted(files), "serve": serve})
        return
    for name in sorted(files):
        print(f"wrote {folder / name}")
    print(f"\nserve it:  {serve}")
    own = f"call it:   manta infer {folder.name} X=1,2,3,4"
    print(f"see it:    manta show {folder.name}" if given.model else own)


def _onnx_graph() -> bytes:
    """Return an ONNX model, Y = X + X of FP32[batch, 4].

    Written field by field: the package onnx is not needed to serve, so it may not be there.
    """
    tensor = _field(1, 1) + _field(2, _field(1, _field(2, b"batch")) + _field(1, _field(1, 4)))
    node = _field(1, b"X") + _field(1, b"X") + _field(2, b"Y") + _field(4, b"Add")
    graph = (
        _field(1, node)
        + _field(2, b"example")
        + _field(11, _field(1, b"X") + _field(2, _field(1, tensor)))
        + _field(12, _field(1, b"Y") + _field(2, _field(1, tensor)))
    )
    # IR version 8, operators of version 17.
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer: a small number, or bytes."""
    if isinstance(value, int):
        return bytes((number << 3, value))
    size = len(value)
    length = bytes((size & 0x7F | 0x80, size >> 7) if size > _ONE_BYTE else (size,))
    return bytes((number << 3 | 2,)) + length + value
