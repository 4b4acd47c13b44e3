# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""AOTInductor packages, with a stand-in for the native code; compiling takes a minute."""

import zipfile

import numpy as np
import pytest

from backends.api.datatypes import numpy_dtype
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from backends.pytorch.call_spec import argument_ways, result_ways  # noqa: E402 - needs PyTorch
from tests.support import torch_models as models  # noqa: E402 - needs PyTorch
from tests.support import torch_sequences as sequences  # noqa: E402 - needs PyTorch

CONFIG = """
name: "m" platform: "torch_aoti" max_batch_size: 4
input { name: "ARGS[0][a]" data_type: TYPE_FP32 dims: [ 3 ] }
input { name: "ARGS[0][b]" data_type: TYPE_FP32 dims: [ 3 ] }
input { name: "KWARGS[scale]" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "RESULT[total]" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "OUTPUT__2" data_type: TYPE_FP32 dims: [ 3 ] }
"""


@pytest.fixture(scope="module")
def program():
    pair = {"b": torch.zeros(2, 3), "a": torch.zeros(2, 3)}
    return models.export(models.Nested(), pair, scale=torch.zeros(2, 3))


class Loader:
    """What PyTorch gives for a package, computed by the program that it would be made of."""

    metadata = {"AOTI_DEVICE_KEY": "cpu", "AOTI_CPU_ISA": ""}

    def __init__(self, program):
        self._program = program

    def get_call_spec(self):
        from torch.utils import _pytree as pytree

        spec = self._program.call_spec
        return [pytree.treespec_dumps(each) for each in (spec.in_spec, spec.out_spec)]

    def get_metadata(self):
        return self.metadata

    def run(self, tensors):
        if tensors[0].shape[0] == 3:
            raise RuntimeError("no\nException raised from somewhere in C++\nframe #0")
        return list(self._program.graph_module(*tensors))


@pytest.fixture(scope="module")
def accumulating():
    return models.export(models.Accumulator(), *models.Accumulator.example(), most=8)


@pytest.fixture
def package(tmp_path, monkeypatch, program):
    """Return a function that loads a package, of ``program`` if of no other, under a config."""

    class Package:
        loader = Loader(program)

    seen = []

    def open_package(path, device_index):
        seen.append((path, device_index))
        return Package

    monkeypatch.setattr(torch._inductor, "aoti_load_package", open_package)

    def made(text=CONFIG, of=None, **fields):
        if of is not None:
            Package.loader = Loader(of)
        context = context_of(tmp_path, text, **fields)
        with zipfile.ZipFile(context.model_path("model.pt2"), "w") as archive:
            archive.writestr("p/data/aotinductor/model/x.wrapper.so", b"")
        instance = load(context)
        assert seen == [(context.model_path("model.pt2"), -1)]
        return instance

    return made


def step(value, rows=1):
    names = ("ARGS[0][a]", "ARGS[0][b]", "KWARGS[scale]")
    return recorded({name: np.full((rows, 3), value, np.float32) for name in names})


def test_tensors_are_passed_in_the_order_of_the_call_spec(package):
    requests = [step(1), step(2)]
    execute(package(), *requests)
    assert requests[1].arrays()["RESULT[total]"].tolist() == [[12.0] * 3]
    assert requests[1].arrays()["OUTPUT__2"].tolist() == [[2.0] * 3]


def test_ways_follow_the_spec_and_not_the_alphabet(program):
    assert argument_ways(program.call_spec.in_spec) == [
        "ARGS[0][b]",
        "ARGS[0][a]",
        "KWARGS[scale]",
    ]
    assert result_ways(program.call_spec.out_spec) == [
        "RESULT[total]",
        "RESULT[parts][0]",
        "RESULT[parts][1]",
    ]


def sums(package, datatype, dims, example, varying):
    """Return a package of a sum and a difference, of tensors of these dims."""
    batch = torch.export.Dim("batch", min=1, max=8)
    shape = {0: batch, 1: torch.export.Dim("size", min=1, max=64)} if varying else {0: batch}
    program = torch.export.export(
        models.AddSub(), (example, example), dynamic_shapes=(shape, shape)
    )
    sides = (("input", "ARGS"), ("output", "RESULT"))
    tensors = [
        f'{side} {{ name: "{name}[{place}]" data_type: TYPE_{datatype} dims: [ {dims} ] }} '
        for side, name in sides
        for place in (0, 1)
    ]
    return package(
        'name: "m" platform: "torch_aoti" max_batch_size: 8 ' + "".join(tensors), program
    )


def check_sum(instance, array):
    request = recorded({"ARGS[0]": array, "ARGS[1]": array})
    execute(instance, request)
    made = request.arrays()["RESULT[0]"]
    assert (made.dtype, made.shape) == (array.dtype, array.shape)
    assert np.array_equal(made, array + array)


@pytest.mark.parametrize("datatype", ["INT8", "INT16", "INT32", "INT64", "FP16", "FP32"])
def test_datatypes_pass_at_any_batch_size(package, datatype):
    dtype = numpy_dtype(datatype)
    instance = sums(package, datatype, "16", torch.from_numpy(np.zeros((2, 16), dtype)), False)
    for rows in (1, 4, 8):
        check_sum(instance, np.arange(rows * 16).reshape(rows, 16).astype(dtype) % 50)


def test_dimensions_may_vary_beside_the_batch(package):
    instance = sums(package, "FP32", "-1", torch.zeros(2, 16), True)
    for rows in (1, 4, 8):
        for size in (1, 16, 64):
            check_sum(instance, np.ones((rows, size), np.float32))


def test_a_single_result_has_no_brackets():
    program = models.export(models.Layers(), torch.zeros(2, 16))
    assert result_ways(program.call_spec.out_spec) == ["RESULT"]


def test_a_failure_has_the_text_of_triton_and_no_frames(package):
    request = step(1, rows=3)
    execute(package(), request)
    assert isinstance(request.error, InternalError)
    assert request.error.message.startswith(
        "Inductor model instance \"m_0_0\" execution failure: no (model 'm', inputs "
    )


@pytest.mark.parametrize(
    ("old", "new", "error", "says"),
    [
        (
            "ARGS[0][b]",
            "b",
            InvalidArgumentError,
            'Input "b" for model instance "m_0_0" is not found in model input map.',
        ),
        (
            "OUTPUT__2",
            "OUTPUT__3",
            InvalidArgumentError,
            'Output "OUTPUT__3" for model instance "m_0_0" is not found in model output map.',
        ),
        (
            'input { name: "KWARGS[scale]" data_type: TYPE_FP32 dims: [ 3 ] }',
            "",
            InvalidArgumentError,
            'Failed to load model "m_0_0" configuration expects 2 inputs, but model expects 3',
        ),
    ],
)
def test_a_config_that_contradicts_the_package_has_the_text_of_triton(
    package, old, new, error, says
):
    with pytest.raises(TritonError) as raised:
        package(CONFIG.replace(old, new))
    assert isinstance(raised.value, error)
    assert raised.value.message.startswith(says)


@pytest.mark.parametrize("names", [sequences.ORDINAL, sequences.FORWARD], ids=["index", "named"])
def test_sequences_have_controls_and_a_state(package, accumulating, names):
    instance = package(sequences.config(names), accumulating)
    steps = [sequences.step(names, 2, 50, True, 100), sequences.step(names, 3, 10, False, 200)]
    execute(instance, *steps)
    made = [[array.item() for array in each.arrays().values()] for each in steps]
    assert made == [[102, 2], [213, 13]]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"corrid": "STRING"}, "input 'INPUT__4' type 'TYPE_STRING' is not supported by PyTorch."),
        (
            {"state": "STRING"},
            "unsupported datatype TYPE_STRING for input state 'INPUT__1' for model 'm'",
        ),
    ],
)
def test_controls_and_states_of_strings_are_refused(package, accumulating, given, says):
    with pytest.raises(InternalError) as raised:
        package(sequences.config(sequences.ORDINAL, **given), accumulating)
    assert raised.value.message.startswith(says)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"AOTI_DEVICE_KEY": "cuda"}, "package for device 'cuda', but model instance 'm_0_0' is"),
        (
            {"AOTI_DEVICE_KEY": "cpu", "AOTI_CPU_ISA": "AVX512 AVX512_VNNI"},
            "package for processors with AVX512, this one has AVX2; compile it here",
        ),
    ],
)
def test_a_package_for_another_machine_is_refused(package, monkeypatch, metadata, says):
    monkeypatch.setattr(Loader, "metadata", metadata)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    with pytest.raises(UnavailableError) as raised:
        package()
    assert says in raised.value.message
