# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TorchScript modules, executed as PyTorch does."""

import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - once PyTorch is known to be there

ADD_SUB = """
name: "m" platform: "pytorch_libtorch" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] }
input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT__0" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT__1" data_type: TYPE_INT32 dims: [ 4 ] }
"""


def config(inputs, outputs, head="max_batch_size: 8"):
    """Return a config of tensors given as (name, datatype, dims)."""
    return f'name: "m" platform: "pytorch_libtorch" {head} ' + "".join(
        f'{side} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] }} '
        for side, tensors in (("input", inputs), ("output", outputs))
        for name, datatype, dims in tensors
    )


def scripted(tmp_path, text, module, **fields):
    context = context_of(tmp_path, text, **fields)
    models.save_script(module, context.model_path("model.pt"))
    return context


def served(tmp_path, text, module, **fields):
    return load(scripted(tmp_path, text, module, **fields))


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }} '


def pair(rows, first=0, names=("INPUT0", "INPUT1"), **fields):
    a = np.arange(first, first + rows * 4, dtype=np.int32).reshape(rows, 4)
    return recorded(dict(zip(names, (a, np.ones_like(a)), strict=True)), **fields)


def test_a_batch_is_answered_as_pytorch_does_alone(tmp_path):
    layers = models.Layers()
    text = config([("x", "FP32", 16)], [("y", "FP32", 10)])
    instance = served(tmp_path, text, layers)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((rows, 16)).astype(np.float32) for rows in (1, 3, 2)]
    requests = [recorded({"x": array}) for array in arrays]
    batch = execute(instance, *requests)
    for array, request in zip(arrays, requests, strict=True):
        with torch.no_grad():
            expected = layers(torch.from_numpy(array)).numpy()
        np.testing.assert_allclose(request.arrays()["y"], expected, rtol=1e-6, atol=1e-6)
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_a_traced_module_is_served_too(tmp_path):
    layers = models.Layers()
    context = context_of(tmp_path, config([("x", "FP32", 16)], [("y", "FP32", 10)]))
    models.save_trace(layers, context.model_path("model.pt"), torch.zeros(2, 16))
    request = recorded({"x": np.ones((3, 16), np.float32)})
    execute(load(context), request)
    with torch.no_grad():
        expected = layers(torch.ones(3, 16)).numpy()
    np.testing.assert_allclose(request.arrays()["y"], expected, rtol=1e-6, atol=1e-6)


def test_every_request_gets_the_outputs_it_asked_for(tmp_path):
    instance = served(tmp_path, ADD_SUB, models.AddSub())
    requests = [pair(1, outputs=["OUTPUT__1"]), pair(2, 8)]
    execute(instance, *requests)
    assert requests[0].arrays()["OUTPUT__1"].tolist() == [[-1, 0, 1, 2]]
    assert list(requests[1].arrays()) == ["OUTPUT__0", "OUTPUT__1"]
    assert requests[1].arrays()["OUTPUT__0"][1].tolist() == [13, 14, 15, 16]


def test_a_request_that_fails_in_the_model_fails_only_itself(tmp_path):
    text = config([("INDEX", "INT64", 1)], [("PICKED", "FP32", 1)])
    requests = [recorded({"INDEX": np.array([[index]])}) for index in (2, 99, 0)]
    execute(served(tmp_path, text, models.Pick()), *requests)
    assert requests[0].arrays()["PICKED"].tolist() == [[30.0]]
    assert requests[2].arrays()["PICKED"].tolist() == [[10.0]]
    assert isinstance(requests[1].error, InternalError)
    assert requests[1].error.message.startswith("PyTorch execute failure: ")
    assert "index 99 is out of bounds" in requests[1].error.message


@pytest.mark.parametrize(
    ("inputs", "difference"),
    [
        (("INPUT1", "INPUT0"), -1),
        (("a__1", "b__0"), -1),
        (("a__0", "b__1"), 1),
        (("first", "second"), 1),
        (("INPUT1", "second"), 1),
        (("a__1", "b"), 1),
    ],
)
def test_inputs_are_arguments_by_name_then_index_then_order(tmp_path, inputs, difference):
    text = config([(name, "INT32", 4) for name in inputs], [("SUM", "INT32", 4), ("D", "INT32", 4)])
    twos, ones = np.full((1, 4), 2, np.int32), np.ones((1, 4), np.int32)
    request = recorded(dict(zip(inputs, (twos, ones), strict=True)))
    execute(served(tmp_path, text, models.AddSub()), request)
    assert request.arrays()["D"].tolist() == [[difference] * 4]


def test_names_that_are_half_a_convention_are_warned_of(tmp_path, caplog):
    text = config([("a__b", "INT32", 4), ("c", "INT32", 4)], [("d__e", "INT32", 4)])
    with caplog.at_level(logging.WARNING):
        served(tmp_path, text, models.AddSub())
    assert (
        "input 'a__b' or previous input(s) are neither an input argument to the model 'm' nor do "
        "they follow the <name>__<index> naming convention. Falling back to enforcing strict "
        "ordering from model configuration."
    ) in caplog.messages
    assert (
        "output 'd__e' or previous output(s) of the model 'm' do not follow the <name>__<index> "
        "naming convention. Falling back to enforcing strict ordering from model configuration."
    ) in caplog.messages


def test_a_dict_is_fed_and_read_by_the_names_of_the_config(tmp_path):
    text = config(
        [("A", "FP32", 2), ("B", "FP32", 2)], [("PRODUCT", "FP32", 2), ("SUM", "FP32", 2)]
    )
    requests = [
        recorded({"B": np.full((1, 2), k, np.float32), "A": np.full((1, 2), 3, np.float32)})
        for k in (1, 2)
    ]
    execute(served(tmp_path, text, models.Keyed()), *requests)
    assert [each.arrays()["SUM"].tolist() for each in requests] == [[[4, 4]], [[5, 5]]]
    assert list(requests[0].arrays()) == ["PRODUCT", "SUM"]


def test_strings_are_a_list_as_long_as_the_batch(tmp_path):
    text = """name: "m" backend: "pytorch" max_batch_size: 8
    input { name: "IN__0" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } }
    output { name: "OUT__0" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } }"""
    instance = served(tmp_path, text, models.Upper())
    # As they come once the reshape is done.
    requests = [
        recorded({"IN__0": np.array([text.encode() for text in texts], object)})
        for texts in (["grün", ""], ["abc"])
    ]
    execute(instance, *requests)
    assert requests[0].arrays()["OUT__0"].tolist() == ["GRüN".encode(), b""]
    assert requests[1].arrays()["OUT__0"].tolist() == [b"ABC"]


def test_strings_of_two_dimensions_are_refused_with_the_text_of_triton(tmp_path):
    text = config([("IN", "STRING", 1)], [("OUT", "STRING", 1)])
    with pytest.raises(InternalError) as raised:
        served(tmp_path, text, models.Upper())
    assert raised.value.message.startswith(
        "Triton only supports 1 dimensional List of String as input for 'IN' for model 'm'"
    )


@pytest.mark.parametrize(
    "datatype",
    [
        "BOOL",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
        "BF16",
    ],
)
@pytest.mark.parametrize("size", [3, 20000])
def test_every_datatype_passes_batched_and_alone(tmp_path, datatype, size):
    from backends.api.datatypes import numpy_dtype

    text = config([("X", datatype, size)], [("Y", datatype, size)])
    instance = served(tmp_path, text, models.Same())
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, (rows, size)).astype(numpy_dtype(datatype)) for rows in (1, 2)]
    for batch in ([0], [0, 1]):
        requests = [recorded({"X": arrays[place]}) for place in batch]
        execute(instance, *requests)
        for request, place in zip(requests, batch, strict=True):
            assert np.array_equal(request.arrays()["Y"], arrays[place])


def test_an_output_never_lies_in_the_memory_of_a_request(tmp_path):
    text = config([("X", "FP32", 20000)], [("Y", "FP32", 20000)])
    request = recorded({"X": np.ones((1, 20000), np.float32)})
    execute(served(tmp_path, text, models.Same()), request)
    given = np.frombuffer(request.request.inputs[0].data, np.uint8)
    made = np.frombuffer(request.response.outputs[0].data, np.uint8)
    assert not np.shares_memory(given, made)


def test_a_model_that_writes_to_its_input_does_not_change_the_request(tmp_path):
    text = config([("X", "FP32", 20000)], [("Y", "FP32", 20000)])
    instance = served(tmp_path, text, models.InPlace())
    request = recorded({"X": np.ones((1, 20000), np.float32)})
    execute(instance, request)
    assert request.arrays()["Y"].max() == 2
    assert np.frombuffer(request.request.inputs[0].data, np.float32).max() == 1


def test_an_output_stays_as_it_was_though_the_model_writes_there_again(tmp_path):
    text = config([("X", "FP32", 20000)], [("Y", "FP32", 20000)], head="")
    text = text.replace("20000", "1, 20000")
    instance = served(tmp_path, text, models.Running(20000))
    requests = [recorded({"X": np.ones((1, 20000), np.float32)}) for _ in range(2)]
    for request in requests:
        execute(instance, request)
    assert [request.arrays()["Y"].max() for request in requests] == [1, 2]


def test_a_model_that_autocasts_answers_in_bfloat16(tmp_path):
    text = config([("x", "FP32", 16)], [("y", "BF16", 10)])
    request = recorded({"x": np.ones((2, 16), np.float32)})
    execute(served(tmp_path, text, models.Autocast()), request)
    with torch.no_grad():
        expected = models.Autocast()(torch.ones(2, 16)).float().numpy()
    assert np.array_equal(request.arrays()["y"].astype(np.float32), expected)


def test_autocast_may_be_asked_for(tmp_path):
    text = config([("x", "FP32", 16)], [("y", "BF16", 10)]) + parameter("AUTOCAST", "bfloat16")
    request = recorded({"x": np.ones((2, 16), np.float32)})
    execute(served(tmp_path, text, models.Layers()), request)
    with torch.no_grad():
        expected = models.Autocast()(torch.ones(2, 16)).float().numpy()
    assert np.array_equal(request.arrays()["y"].astype(np.float32), expected)


RAGGED = """
name: "m" backend: "pytorch" max_batch_size: 8
input { name: "X__0" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "SUM__0" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "TWICE__1" data_type: TYPE_FP32 dims: [ -1 ] }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "ENDS__1"
              data_type: TYPE_INT32 source_input: "X__0" }
batch_output { target_name: "TWICE__1" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X__0" }
"""


def test_requests_of_different_sizes_run_as_one_ragged_batch(tmp_path):
    requests = [
        recorded({"X__0": np.array([values], np.float32)}) for values in ([1, 2, 3], [10], [4, 5])
    ]
    execute(served(tmp_path, RAGGED, models.RaggedSums()), *requests)
    assert [each.arrays()["SUM__0"].tolist() for each in requests] == [[[6]], [[10]], [[9]]]
    twice = [each.arrays()["TWICE__1"].tolist() for each in requests]
    assert twice == [[[2, 4, 6]], [[20]], [[8, 10]]]


COUNTER = """
name: "m" backend: "pytorch" max_batch_size: 4
input { name: "X__0" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y__0" data_type: TYPE_INT32 dims: [ 1 ] }
sequence_batching {
  control_input { name: "READY__1"
                  control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
  state { input_name: "C_IN__2" output_name: "C_OUT__1" data_type: TYPE_INT32 dims: [ 1 ] }
}
"""


def test_states_are_made_whether_asked_for_or_not(tmp_path):
    instance = served(tmp_path, COUNTER, models.Counter())

    def step(x, state, **fields):
        given = {"X__0": x, "READY__1": 1, "C_IN__2": state}
        return recorded({name: np.array([[n]], np.int32) for name, n in given.items()}, **fields)

    requests = [step(1, 10), step(2, 20, outputs=["Y__0"])]
    execute(instance, *requests)
    assert [each.arrays()["C_OUT__1"].tolist() for each in requests] == [[[11]], [[22]]]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("X__0", "X", "is using sequence batching with state but not all inputs and outputs"),
        ("Y__0", "Y", "is using sequence batching with state but not all inputs and outputs"),
        ("C_IN__2", "C_IN", "with state but state 'C_IN' does not follow the <name>__<index>"),
        ("C_OUT__1", "C_OUT", "with state but state 'C_OUT' does not follow the <name>__<index>"),
        ("READY__1", "READY", "input 'READY' does not follow <name>__<index> naming convention."),
        ("C_IN__2", "C_IN__1", "its inputs stand for the arguments 0 ('X__0'), 1 ('READY__1')"),
    ],
)
def test_states_and_controls_need_an_index(tmp_path, old, new, says):
    with pytest.raises(TritonError) as raised:
        served(tmp_path, COUNTER.replace(old, new), models.Counter())
    assert says in raised.value.message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] }',
            "",
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            "input {",
            "output {",
            "unable to load model 'm', configuration expects 0 inputs, model provides 2",
        ),
        (
            "output {",
            "input {",
            "unable to load model 'm', configuration expects 4 inputs, model provides 2",
        ),
    ],
)
def test_a_config_that_contradicts_the_module_fails_with_the_text_of_triton(
    tmp_path, old, new, says
):
    with pytest.raises(TritonError) as raised:
        served(tmp_path, ADD_SUB.replace(old, new), models.AddSub())
    assert raised.value.message == says


def test_a_module_needs_an_output(tmp_path):
    text = config([("INPUT0", "INT32", 4), ("INPUT1", "INT32", 4)], [])
    with pytest.raises(InternalError) as raised:
        served(tmp_path, text, models.AddSub())
    assert raised.value.message == (
        "model configuration must contain at least one output, none were specified."
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "OUTPUT__1",
            "OUTPUT__7",
            "The output OUTPUT__7 in the model configuration refers to an output index which "
            "doesn't exist. This model has 2 outputs",
        ),
        (
            '"OUTPUT__1" data_type: TYPE_INT32',
            '"OUTPUT__1" data_type: TYPE_FP32',
            "configuration expects datatype TYPE_FP32 for output 'OUTPUT__1', model provides "
            "TYPE_INT32",
        ),
    ],
)
def test_an_output_that_is_another_fails_the_request_with_the_text_of_triton(
    tmp_path, old, new, says
):
    instance = served(tmp_path, ADD_SUB.replace(old, new), models.AddSub())
    request = pair(1)
    execute(instance, request)
    assert isinstance(request.error, InvalidArgumentError)
    assert request.error.message == says
    other = pair(1, outputs=["OUTPUT__0"])
    execute(instance, other)
    assert other.arrays()["OUTPUT__0"].tolist() == [[1, 2, 3, 4]]


class Scalar(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class ListOfTensors(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x, x]


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> int:
        return x.shape[0]


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (Scalar(), "output 'y' is a scalar which is not supported."),
        (ListOfTensors(), "It should not be a List / Dictionary of Tensors or a Scalar"),
        (Number(), "PyTorch execute failure: output must be of type Tensor, List[str] or Tuple"),
    ],
)
def test_results_that_no_output_can_be_are_refused(tmp_path, module, says):
    request = recorded({"x": np.ones((1, 2), np.float32)})
    text = config([("x", "FP32", 2)], [("y", "FP32", 2)])
    execute(served(tmp_path, text, module), request)
    assert says in request.error.message


class TwoDicts(torch.nn.Module):
    def forward(self, a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> torch.Tensor:
        return a["x"] + b["x"]


class Factor(torch.nn.Module):
    def forward(self, a: torch.Tensor, factor: int) -> torch.Tensor:
        return a * factor


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (TwoDicts(), "Multiple inputs of kind DictType were detected."),
        (Factor(), "An input of type 'int' was detected in the model. Only a single input of type"),
    ],
)
def test_arguments_that_no_input_can_be_are_refused(tmp_path, module, says):
    text = config([("a", "FP32", 2), ("b", "FP32", 2)], [("y", "FP32", 2)])
    with pytest.raises(InternalError) as raised:
        served(tmp_path, text, module)
    assert raised.value.message.startswith(says)


def test_a_missing_file_names_its_path(tmp_path):
    context = context_of(tmp_path, ADD_SUB)
    with pytest.raises(UnavailableError) as raised:
        load(context)
    assert raised.value.message == (
        f"unable to find '{context.version_dir}/model.pt' for model instance 'm_0_0'"
    )


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_model_fails_the_load(tmp_path, content):
    context = context_of(tmp_path, ADD_SUB)
    Path(context.model_path("model.pt")).write_bytes(content)
    with pytest.raises(InternalError, match="failed to load model 'm': "):
        load(context)


def test_a_file_of_a_later_version_is_refused_with_that_version(tmp_path):
    context = scripted(tmp_path, ADD_SUB, models.AddSub())
    path = Path(context.model_path("model.pt"))
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, b"99\n" if name.endswith("/version") else content)
    with pytest.raises(InternalError, match=r"failed to load model 'm': .*version 99"):
        load(context)


def test_weights_alone_are_refused_with_advice(tmp_path):
    context = context_of(tmp_path, ADD_SUB)
    torch.save(models.Layers().state_dict(), context.model_path("model.pt"))
    with pytest.raises(InternalError, match=r"holds pickled tensors or modules; save the model"):
        load(context)


def test_a_library_of_operators_that_is_missing_or_none_is_named(tmp_path):
    named = 'model_operations { op_library_filename: "libmine.so" }'
    context = scripted(tmp_path, ADD_SUB + named, models.AddSub())
    with pytest.raises(UnavailableError, match=r"unable to find '.*/1/libmine.so'"):
        load(context)
    Path(context.model_dir, "libmine.so").write_bytes(b"no library")
    with pytest.raises(InternalError, match=r"failed to load model 'm': .*libmine.so"):
        load(context)


def test_nothing_is_completed_from_torchscript(tmp_path, caplog):
    context = scripted(tmp_path, 'name: "m" backend: "pytorch"', models.AddSub())
    assert auto_complete(context) == context.config
    assert (
        "skipping model configuration auto-complete for 'm': not supported for pytorch backend"
    ) in caplog.text


def test_a_gpu_instance_never_runs_on_the_cpu_silently(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UnavailableError, match=r"KIND_GPU but PyTorch .* sees no GPU"):
        served(tmp_path, ADD_SUB, models.AddSub(), kind="GPU")


def test_a_model_that_places_itself_runs_where_it_was_saved(tmp_path):
    request = pair(1)
    execute(served(tmp_path, ADD_SUB, models.AddSub(), kind="MODEL"), request)
    assert request.arrays()["OUTPUT__0"].tolist() == [[1, 2, 3, 4]]
