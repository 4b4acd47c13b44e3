# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch models that are compiled to native code, which takes g++ and a minute."""

import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - needs PyTorch

# Compiling is PyTorch's, and so is what it warns of.
pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

PACKAGE = """
name: "m" platform: "torch_aoti" max_batch_size: 4
input { name: "ARGS[0]" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "RESULT" data_type: TYPE_FP32 dims: [ 10 ] }
"""
CLASS = """
name: "m" backend: "pytorch" runtime: "model.py" max_batch_size: 4
input { name: "ARGS[0]" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "RESULT" data_type: TYPE_FP32 dims: [ 10 ] }
parameters { key: "TORCH_COMPILE" value { string_value: "true" } }
"""


def check_answers(instance):
    """Check that a batch, and each of its requests alone, is answered as PyTorch does."""
    layers = models.Layers()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((rows, 16)).astype(np.float32) for rows in (1, 3, 2)]
    for batch in (arrays, *([array] for array in arrays)):
        requests = [recorded({"ARGS[0]": array}) for array in batch]
        execute(instance, *requests)
        for array, request in zip(batch, requests, strict=True):
            with torch.no_grad():
                expected = layers(torch.from_numpy(array)).numpy()
            np.testing.assert_allclose(request.arrays()["RESULT"], expected, rtol=1e-5, atol=1e-6)


def test_an_aotinductor_package_answers_as_pytorch_does(tmp_path):
    context = context_of(tmp_path, PACKAGE)
    program = models.export(models.Layers(), torch.zeros(2, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch._inductor.aoti_compile_and_package(
            program, package_path=context.model_path("model.pt2")
        )
    check_answers(load(context))


def test_a_class_that_is_compiled_answers_as_pytorch_does(tmp_path):
    context = context_of(tmp_path, CLASS)
    Path(context.version_dir, "model.py").write_text(
        "from tests.support.torch_models import Layers as Net"
    )
    check_answers(load(context))


OPERATOR = """
#include <ATen/ATen.h>
#include <torch/library.h>

static at::Tensor modulo(const at::Tensor& a, const at::Tensor& b) { return a.remainder(b); }

TORCH_LIBRARY(manta_tests, library) { library.def("modulo", modulo); }
"""
MODULO = """
name: "m" platform: "pytorch_libtorch"
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 10 ] }
input { name: "INPUT__1" data_type: TYPE_FP32 dims: [ 10 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 10 ] }
model_operations { op_library_filename: "libmodulo.so" }
"""


class Modulo(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.manta_tests.modulo(a, b)


def test_a_module_calls_an_operator_of_a_library_beside_it(tmp_path):
    context = context_of(tmp_path, MODULO)
    library = f"{context.model_dir}/libmodulo.so"
    root = Path(torch.__file__).parent
    source = tmp_path / "modulo.cc"
    source.write_text(OPERATOR)
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{root}/include", str(source)]
    linked = [f"-L{root}/lib", "-lc10", "-ltorch_cpu"]
    subprocess.run([*command, "-o", library, *linked], check=True)
    # To save the module, the operator has to be known; another process would not know it.
    torch.ops.load_library(library)
    models.save_script(Modulo(), context.model_path("model.pt"))
    numbers = np.arange(1, 11, dtype=np.float32)
    request = recorded({"INPUT__0": numbers, "INPUT__1": np.full(10, 2, np.float32)})
    execute(load(context), request)
    assert request.arrays()["OUTPUT__0"].tolist() == [1, 0] * 5
