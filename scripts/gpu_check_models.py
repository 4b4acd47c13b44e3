# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server of gpu_check_server.py and its models."""

import atexit
import functools
import os
import tempfile
import warnings
from pathlib import Path

import torch
from gpu_check_torch import LAYERS as LAYERS_ALONE
from gpu_check_torch import Layers
from torch import nn

from tests.support.server import RunningServer

# KIND_CPU runs most checks on a machine without a GPU.
KIND = os.environ.get("GPU_CHECK_KIND", "KIND_GPU")
DEVICE = "cuda" if KIND == "KIND_GPU" else "cpu"
GIB = 1 << 30

_LAYERS = LAYERS_ALONE.replace('name: "layers"', "")
LAYERS = f"""{_LAYERS}
instance_group {{ kind: {KIND} count: 2 }}
dynamic_batching {{ }}
"""
AUTOMATIC = f"""{_LAYERS}
dynamic_batching {{ }}
"""
QUARTER = f"""{_LAYERS}
instance_group {{ kind: {KIND} count: 3 }}
dynamic_batching {{ }}
parameters {{ key: "ray_num_gpus" value {{ string_value: "0.25" }} }}
"""
ADD = f"""
backend: "onnxruntime"
input {{ name: "x" data_type: TYPE_FP32 dims: [ 4 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 4 ] }}
instance_group {{ kind: {KIND} }}
"""
CHAIN = """
platform: "ensemble" max_batch_size: 64
input { name: "x" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "z" data_type: TYPE_FP32 dims: [ 10 ] }
ensemble_scheduling {
  step { model_name: "layers" model_version: -1
    input_map { key: "x__0" value: "x" } output_map { key: "y__0" value: "y" } }
  step { model_name: "doubled" model_version: -1
    input_map { key: "X" value: "y" } output_map { key: "Y" value: "z" } }
}
"""
DOUBLED = f"""
backend: "python" max_batch_size: 64
input {{ name: "X" data_type: TYPE_FP32 dims: [ -1 ] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }}
output {{ name: "BFLOAT" data_type: TYPE_BF16 dims: [ -1 ] }}
output {{ name: "MASK" data_type: TYPE_BOOL dims: [ -1 ] }}
instance_group {{ kind: {KIND} }}
"""
# As code for Triton is written: to the GPU by DLPack, and back as it is.
DOUBLED_CODE = f"""
import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
            y = from_dlpack(x.to_dlpack()).to("{DEVICE}") * 2
            outputs = [
                pb_utils.Tensor.from_dlpack("Y", to_dlpack(y)),
                pb_utils.Tensor.from_dlpack("BFLOAT", y.to(torch.bfloat16)),
                pb_utils.Tensor.from_dlpack("MASK", y > 0),
            ]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
"""
HUNGRY = f"""
backend: "python"
input {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }}
instance_group {{ kind: {KIND} }}
parameters {{ key: "gib" value {{ string_value: "GIB" }} }}
"""
HUNGRY_CODE = f"""
import json
import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        gib = json.loads(args["model_config"])["parameters"]["gib"]["string_value"]
        self.taken = torch.zeros(int(float(gib) * (1 << 30)), dtype=torch.uint8, device="{DEVICE}")

    def execute(self, requests):
        read = pb_utils.get_input_tensor_by_name
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", read(each, "X").as_numpy())])
            for each in requests
        ]
"""
RESNET = f"""
platform: "pytorch_libtorch" max_batch_size: 64
input {{ name: "x__0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }}
output {{ name: "y__0" data_type: TYPE_FP16 dims: [ 1000 ] }}
instance_group {{ kind: {KIND} }}
dynamic_batching {{ preferred_batch_size: [ 32 ] max_queue_delay_microseconds: 2000 }}
parameters {{ key: "AUTOCAST" value {{ string_value: "float16" }} }}
"""


class Served(RunningServer):
    """The server.

    Args:
        repository: Its model repository; models may be written there later, too.
    """

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        super().__init__(repository, "--model-control-mode=explicit", "--allow-client-shm=true")


@functools.cache
def served() -> Served:
    """Return the server, started at the first call; it ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="manta-gpu-check-")
    root = Path(folder.name)
    write_model(root, "layers", LAYERS, saved(Layers()))
    write_model(root, "doubled", DOUBLED, {"model.py": DOUBLED_CODE})
    write_model(root, "chain", CHAIN, {})
    write_model(root, "automatic", AUTOMATIC, saved(Layers()))
    write_model(root, "quarter", QUARTER, saved(Layers()))
    write_model(root, "large", HUNGRY.replace("GIB", _gib(0.4)), {"model.py": HUNGRY_CODE})
    write_model(root, "blocker", HUNGRY.replace("GIB", _gib(0.75)), {"model.py": HUNGRY_CODE})
    server = Served(root)

    def end() -> None:
        server.terminate()
        folder.cleanup()

    atexit.register(end)
    return server


def _gib(fraction: float) -> str:
    """Return a part of the GPU's memory in GiB, as the config of `HUNGRY` has it."""
    if DEVICE == "cpu":
        return "0.01"
    return f"{fraction * torch.cuda.get_device_properties(0).total_memory / GIB:.1f}"


def write_model(root: Path, name: str, config: str, files: dict[str, bytes | str]) -> None:
    version = root / name / "1"
    version.mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(f'name: "{name}"\n{config}')
    for file, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (version / file).write_bytes(data)


def saved(module: nn.Module, example: torch.Tensor | None = None) -> dict[str, bytes | str]:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        module.eval()
        made = torch.jit.script(module) if example is None else torch.jit.trace(module, example)
        made.save(f"{folder}/model.pt")
        return {"model.pt": Path(folder, "model.pt").read_bytes()}
