# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that show what reaches a model: values, shapes, parameters."""

from pathlib import Path

import ml_dtypes
import numpy as np

from tests.support.model_folders import write_folder

# By V2 datatype: the edges of its range, and for floats what JSON has no literals for.
VALUES: dict[str, np.ndarray] = {
    "BOOL": np.array([True, False, True]),
    **{
        f"{kind}{bits}": np.array(
            [np.iinfo(f"{name}{bits}").min, 0, 1, np.iinfo(f"{name}{bits}").max], f"{name}{bits}"
        )
        for kind, name in (("INT", "int"), ("UINT", "uint"))
        for bits in (8, 16, 32, 64)
    },
    "FP16": np.array([np.inf, -np.inf, np.nan, -0.0, 6e-8, 65504.0], np.float16),
    "BF16": np.array([np.inf, -np.inf, np.nan, -0.0, 1.5, 3.0e38], ml_dtypes.bfloat16),
    "FP32": np.array([np.inf, -np.inf, np.nan, -0.0, 0.1, 3.4028235e38, 1e-45], np.float32),
    "FP64": np.array([np.inf, -np.inf, np.nan, -0.0, 0.1, 1.7976931348623157e308], np.float64),
    "BYTES": np.array(
        [b"", b"plain", "m\u00fcnchen \U0001f680".encode(), b'"\\\n\t/', b"\x00tail"], np.object_
    ),
}
CONFIG_TYPES = {name: "TYPE_STRING" if name == "BYTES" else f"TYPE_{name}" for name in VALUES}

_HEAD = "import json\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\n"

EACH_DATATYPE = """
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([copied(t) for t in r.inputs()]) for r in requests]


def copied(tensor):
    name = tensor.name().replace("IN_", "OUT_")
    if name == "OUT_BF16":
        return pb_utils.Tensor.from_dlpack(name, tensor.to_dlpack())
    return pb_utils.Tensor(name, tensor.as_numpy().copy())
"""
ECHO_PARAMETERS = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            seen = {
                "id": request.request_id(),
                "correlation_id": request.correlation_id(),
                "timeout": request.timeout(),
                "parameters": json.loads(request.parameters()),
            }
            text = np.array([json.dumps(seen).encode()], dtype=np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", text)]))
        return responses
"""
RESHAPED = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            grid = pb_utils.get_input_tensor_by_name(request, "GRID").as_numpy()
            scalar = pb_utils.get_input_tensor_by_name(request, "SCALAR").as_numpy()
            seen = json.dumps([list(grid.shape), list(scalar.shape)]).encode()
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("FLAT", grid.copy()),
                pb_utils.Tensor("SAME", scalar.copy()),
                pb_utils.Tensor("SEEN", np.array([[seen]] * len(grid), dtype=np.object_)),
            ]))
        return responses
"""
LABELLED = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(
                "SCORES", pb_utils.get_input_tensor_by_name(r, "VALUES").as_numpy().copy())])
            for r in requests
        ]
"""
_CPU = "instance_group [ { kind: KIND_CPU } ]\n"


def write_surface_models(repository: Path) -> None:
    """Write all of them: each_datatype, echo_parameters, reshaped, labelled, piece, pipeline."""
    _write(repository, "each_datatype", EACH_DATATYPE, _every_datatype())
    _write(
        repository,
        "echo_parameters",
        ECHO_PARAMETERS,
        'input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]\n'
        'output [ { name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] } ]\n',
    )
    _write(
        repository,
        "reshaped",
        RESHAPED,
        "max_batch_size: 4\n"
        'input [ { name: "GRID" data_type: TYPE_INT32 dims: [ 4, 4 ] '
        "reshape { shape: [ 2, 8 ] } },\n"
        '{ name: "SCALAR" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]\n'
        'output [ { name: "FLAT" data_type: TYPE_INT32 dims: [ 16 ] '
        "reshape { shape: [ 2, 8 ] } },\n"
        '{ name: "SAME" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } },\n'
        '{ name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] } ]\n',
    )
    _write(
        repository,
        "labelled",
        LABELLED,
        "max_batch_size: 4\n"
        'input [ { name: "VALUES" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
        'output [ { name: "SCORES" data_type: TYPE_FP32 dims: [ 4 ] '
        'label_filename: "labels.txt" } ]\n',
    )
    (repository / "labelled" / "labels.txt").write_text("ant\nbee\ncat\n")
    _write_ensemble(repository)


def _write_ensemble(repository: Path) -> None:
    tensors = (
        'input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
        'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
    )
    steps = (
        'ensemble_scheduling { step [ { model_name: "piece" model_version: -1 '
        'input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } ] }\n'
    )
    for name, config in (
        ("piece", f'backend: "identity"\n{_CPU}{tensors}'),
        ("pipeline", f'platform: "ensemble"\n{tensors}{steps}'),
    ):
        write_folder(repository, name, config)


def _every_datatype() -> str:
    def rows(prefix: str, extra: str) -> str:
        return ",\n".join(
            f'{{ name: "{prefix}_{name}" data_type: {config} dims: [ -1 ] {extra} }}'
            for name, config in CONFIG_TYPES.items()
        )

    return f"input [ {rows('IN', 'optional: true')} ]\noutput [ {rows('OUT', '')} ]\n"


def _write(repository: Path, name: str, code: str, config: str) -> None:
    write_folder(repository, name, f'backend: "python"\n{_CPU}{config}', _HEAD + code)
