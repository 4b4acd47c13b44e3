# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ensembles on disk, and the Python models they are made of."""

from pathlib import Path

from tests.support.model_folders import write_folder

DOUBLE = """
import pathlib, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]
        self.folder = pathlib.Path(args["model_repository"]).resolve().parent.parent

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)])

    def wait_for(self, path):
        for _ in range(3000):
            if path.exists():
                return True
            time.sleep(0.01)
        return False
"""
# Two steps that each wait until the other runs: only parallel ones both answer.
MEET = (
    DOUBLE
    + """
    def one(self, request):
        (self.folder / self.name).touch()
        other = {"left": "right", "right": "left"}[self.name]
        if not self.wait_for(self.folder / other):
            raise pb_utils.TritonModelException(f"{other} did not run")
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + 1)])
"""
)
ADD = (
    DOUBLE
    + """
    def one(self, request):
        x, z = (pb_utils.get_input_tensor_by_name(request, name) for name in "XZ")
        total = x.as_numpy() if z is None else x.as_numpy() + z.as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", total)])
"""
)
PICKY = (
    DOUBLE
    + """
    def one(self, request):
        error = pb_utils.TritonError("no thanks", pb_utils.TritonError.INVALID_ARG)
        return pb_utils.InferenceResponse(error=error)
"""
)
HANG = (
    DOUBLE
    + """
    def one(self, request):
        if (self.folder / "hang").exists():
            (self.folder / "hangs").touch()
            self.wait_for(self.folder / "never")
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)])
"""
)
# Answers with X, X+1, X+2.
REPEAT = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            for count in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + count)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
"""
# Waits for a file before every answer.
GATED = (
    DOUBLE
    + """
    def one(self, request):
        (self.folder / "gated").touch()
        self.wait_for(self.folder / "gate")
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])
"""
)
# Answers with X, X+1 and so on, and leaves a file at each tenth.
MANY = (
    REPEAT.replace("range(3)", "range(40)")
    .replace("import triton", "import pathlib\n\nimport triton")
    .replace(
        "    def execute",
        """    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"]).resolve().parent.parent

    def execute""",
    )
    .replace(
        "            sender.send(flags",
        """                if count % 10 == 9:
                    (self.folder / f"sent{count + 1}").touch()
            sender.send(flags""",
    )
)
DECOUPLED = "model_transaction_policy { decoupled: true }"


def _write_model(root: Path, name: str, code: str, inputs: str = "X", rest: str = "") -> None:
    tensors = " ".join(
        f'input {{ name: "{each.rstrip("?")}" data_type: TYPE_INT32 dims: [ -1 ] '
        f"{'optional: true' if each.endswith('?') else ''} }}"
        for each in inputs.split()
    )
    config = (
        f'name: "{name}" backend: "python" max_batch_size: 8 {tensors} '
        f'output {{ name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }} {rest} '
        "instance_group [ { kind: KIND_CPU count: 1 } ]"
    )
    write_folder(root, name, config, code)


def write_ensemble(root: Path, name: str, *steps: str, limit: int = 0) -> None:
    """Steps are ``model X=tensor ... -> tensor``; the input is X and the output Y."""
    texts = []
    for step in steps:
        left, _, written = step.partition(" -> ")
        model, *reads = left.split()
        maps = " ".join(
            'input_map {{ key: "{}" value: "{}" }}'.format(*read.split("=")) for read in reads
        )
        texts.append(
            f'step {{ model_name: "{model}" model_version: -1 {maps} '
            f'output_map {{ key: "Y" value: "{written}" }} }}'
        )
    config = (
        f'name: "{name}" platform: "ensemble" max_batch_size: 8 '
        'input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } '
        'output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] } '
        f"ensemble_scheduling {{ {' '.join(texts)} max_inflight_requests: {limit} }}"
    )
    write_folder(root, name, config)


def write_ensembles(root: Path) -> None:
    """Write the ensembles of these tests and the models they are made of."""
    for name, code in (("double", DOUBLE), ("left", MEET), ("right", MEET), ("picky", PICKY)):
        _write_model(root, name, code)
    _write_model(root, "hang", HANG)
    _write_model(root, "own", DOUBLE)
    _write_model(root, "add", ADD, "X Z?")
    _write_model(root, "repeat", REPEAT, rest=DECOUPLED)
    _write_model(root, "many", MANY, rest=DECOUPLED)
    _write_model(root, "gated", GATED)
    write_ensemble(root, "paced", "many X=X -> a", "gated X=a -> Y", limit=4)
    write_ensemble(root, "chain", "double X=X -> a", "double X=a -> b", "double X=b -> Y")
    write_ensemble(root, "diamond", "left X=X -> a", "right X=X -> b", "add X=a Z=b -> Y")
    write_ensemble(root, "nested", "chain X=X -> a", "add X=a -> Y")
    write_ensemble(root, "refused", "double X=X -> a", "picky X=a -> Y")
    write_ensemble(root, "outer", "refused X=X -> Y")
    write_ensemble(root, "stream", "repeat X=X -> a", "double X=a -> Y")
    write_ensemble(root, "hanging", "double X=X -> a", "hang X=a -> Y")
    write_ensemble(root, "alone", "own X=X -> Y")
