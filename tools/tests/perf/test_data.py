# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import base64
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.datatypes import DATATYPES, numpy_dtype
from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.generated import Recipe, generate
from manta_tools.perf.data.input_file import read_inputs
from manta_tools.perf.data.model import Model, Tensor, read_model, with_shapes

METADATA = {
    "name": "m",
    "versions": ["1"],
    "inputs": [
        {"name": "A", "datatype": "INT32", "shape": [-1, 2]},
        # As gRPC's JSON has it.
        {"name": "B", "datatype": "BYTES", "shape": ["-1", "-1"]},
    ],
    "outputs": [{"name": "C", "datatype": "INT32", "shape": [-1, 2]}],
}
CONFIG = {"max_batch_size": 8, "input": [{"name": "A"}, {"name": "B", "optional": True}]}
MODEL = Model(
    "m",
    "",
    (Tensor("A", "INT32", (2,)), Tensor("B", "BYTES", (-1,), is_optional=True)),
    (Tensor("C", "INT32", (2,)),),
    max_batch_size=8,
)


def written(tmp_path, document, name="data.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def read(tmp_path, document, model=MODEL, batch_size=1):
    return read_inputs([written(tmp_path, document)], model, batch_size)


def refusal(tmp_path, document, model=MODEL):
    with pytest.raises(InvalidArgumentError) as caught:
        read(tmp_path, document, model)
    return caught.value.message


def ints(*values):
    return np.array(values, np.int32).tobytes()


def test_a_model_is_read_without_its_batch_dimension():
    assert read_model(METADATA, CONFIG) == MODEL


@pytest.mark.parametrize(
    ("config", "attribute"),
    [
        ({"sequence_batching": {}}, "is_sequence"),
        ({"model_transaction_policy": {"decoupled": True}}, "is_decoupled"),
        ({"response_cache": {"enable": True}}, "is_cached"),
    ],
)
def test_a_config_says_how_requests_go(config, attribute):
    assert getattr(read_model(METADATA, config), attribute)
    assert not getattr(read_model(METADATA, {}), attribute)


def test_an_ensemble_has_its_steps():
    steps = [{"model_name": "a", "model_version": "-1"}, {"model_name": "b", "model_version": 3}]
    model = read_model(METADATA, {"ensemble_scheduling": {"step": steps}})
    assert model.composing == (("a", ""), ("b", "3"))


def test_a_shape_fills_in_variable_dimensions():
    assert with_shapes(MODEL, [("B", (5,))], 1).inputs[1].shape == (5,)


@pytest.mark.parametrize(
    ("shapes", "batch_size", "part"),
    [
        ([("Z", (1,))], 1, "--shape names 'Z', which is no input of model 'm'"),
        ([("A", (3,))], 1, "--shape A:3 does not fit the model's shape [2]"),
        ([], 9, "got batch size 9, but model 'm' has max_batch_size 8"),
    ],
)
def test_shapes_and_batches_that_do_not_fit_are_refused(shapes, batch_size, part):
    with pytest.raises(InvalidArgumentError) as caught:
        with_shapes(MODEL, shapes, batch_size)
    assert part in caught.value.message


def test_a_model_without_batching_takes_no_batches():
    with pytest.raises(InvalidArgumentError, match="does not support batching"):
        with_shapes(Model("m", "", (), ()), [], 2)


@given(st.sampled_from(sorted(DATATYPES)), st.integers(1, 3), st.booleans(), st.integers(0, 9))
def test_generated_data_has_the_size_of_its_shape(datatype, batch_size, is_zero, seed):
    model = Model("m", "", (Tensor("x", datatype, (3, 2)),), (), max_batch_size=4)
    recipe = Recipe(is_zero=is_zero, string_length=5, seed=seed)
    content = generate(model, batch_size, recipe).streams[0][0].inputs["x"]
    assert content.shape == (batch_size, 3, 2)
    if datatype == "BYTES":
        elements = deserialize_bytes(memoryview(content.raw))
        assert len(elements) == batch_size * 6
        assert {len(each) for each in elements} == {0 if is_zero else 5}
    else:
        values = np.frombuffer(content.raw, numpy_dtype(datatype))
        assert values.size == batch_size * 6
        assert np.isfinite(values.astype(np.float64)).all()
        assert not is_zero or not values.any()


def test_string_data_is_in_every_element():
    model = Model("m", "", (Tensor("x", "BYTES", (3,)),), ())
    content = generate(model, 1, Recipe(string_data="hello")).streams[0][0].inputs["x"]
    assert deserialize_bytes(memoryview(content.raw)) == [b"hello"] * 3


@pytest.mark.parametrize(
    ("tensor", "part"),
    [
        (Tensor("x", "FP32", (-1,)), "input x contains dynamic shape, provide shapes to send"),
        (
            Tensor("x", "INT32", (2,), is_shape_tensor=True),
            "can not generate data for shape tensor 'x', user-provided data is needed.",
        ),
    ],
)
def test_what_cannot_be_made_up_is_refused(tensor, part):
    with pytest.raises(InvalidArgumentError) as caught:
        generate(Model("m", "", (tensor,), ()), 1, Recipe())
    assert part in caught.value.message


def test_optional_inputs_are_not_made_up():
    assert list(generate(MODEL, 1, Recipe()).streams[0][0].inputs) == ["A"]


@pytest.mark.parametrize(
    "tensor",
    [
        [7, 8],
        [[7, 8]],
        {"content": [7, 8]},
        {"content": [7, 8], "shape": [2]},
        {"b64": base64.b64encode(ints(7, 8)).decode()},
        {"content": {"b64": base64.b64encode(ints(7, 8)).decode()}, "shape": [2]},
    ],
)
def test_a_tensor_may_be_given_in_all_of_perf_analyzer_s_forms(tmp_path, tensor):
    data = read(tmp_path, {"data": [{"A": tensor}]}, batch_size=2)
    content = data.streams[0][0].inputs["A"]
    assert (content.shape, content.raw) == ((2, 2), ints(7, 8, 7, 8))


def test_steps_are_one_stream_and_lists_of_steps_are_streams(tmp_path):
    step = {"A": [1, 2]}
    assert [len(each) for each in read(tmp_path, {"data": [step, step]}).streams] == [2]
    streams = read(tmp_path, {"data": [[step], [step, step, step]]}).streams
    assert [len(each) for each in streams] == [1, 3]


def test_files_without_streams_are_one_stream_together(tmp_path):
    paths = [written(tmp_path, {"data": [{"A": [n, n]}]}, f"{n}.json") for n in range(3)]
    data = read_inputs(paths, MODEL, 1)
    assert [row.inputs["A"].raw for row in data.streams[0]] == [ints(n, n) for n in range(3)]


def test_strings_are_elements(tmp_path):
    data = read(tmp_path, {"data": [{"A": [1, 2], "B": {"content": ["x", "yz"], "shape": [2]}}]})
    assert data.streams[0][0].inputs["B"].raw == serialize_bytes(["x", "yz"])


def test_validation_data_is_what_outputs_have_to_be(tmp_path):
    document = {"data": [{"A": [1, 2]}], "validation_data": [{"C": [3, 4]}]}
    row = read(tmp_path, document, batch_size=2).streams[0][0]
    assert row.expected == {"C": ints(3, 4, 3, 4)}


def test_validation_data_may_be_of_some_steps(tmp_path):
    step = {"A": [1, 2]}
    document = {"data": [[step, step]], "validation_data": [[{}, {"C": [3, 4]}]]}
    assert [row.expected for row in read(tmp_path, document).streams[0]] == [{}, {"C": ints(3, 4)}]


@pytest.mark.parametrize(
    ("document", "part"),
    [
        ("{", "failed to parse the specified json file for reading provided data"),
        ({}, "The json file doesn't contain data field"),
        ({"data": []}, "the data has no steps"),
        ({"data": [[]]}, "the data has no steps"),
        ({"data": [{"A": [1, 2]}, []]}, "Can not have a combination of objects and arrays"),
        ({"data": [3]}, "Input data file is malformed. ( Location stream id: 0, step id: 0)"),
        ({"data": [{}]}, "missing tensor A ( Location stream id: 0, step id: 0)"),
        (
            {"data": [{"A": [1, 2], "Q": [1]}]},
            "The input or output 'Q' is not found in the model configuration",
        ),
        ({"data": [{"A": {"shape": [2]}}]}, "missing content field of tensor A"),
        ({"data": [{"A": {"content": [1, 2], "shape": ["2"]}}]}, "shape values must be integers"),
        (
            {"data": [{"A": {"content": [1, 2, 3], "shape": [3]}}]},
            'The supplied shape of [3] for input "A" is incompatible with the model\'s input shape',
        ),
        (
            {"data": [{"A": [1]}]},
            "mismatch in the data provided for A. Expected: 8 bytes, Got: 4 bytes",
        ),
        ({"data": [{"A": ["x", "y"]}]}, "the values of tensor A are not of datatype INT32"),
        ({"data": [{"A": [1, 2**40]}]}, "the values of tensor A are not of datatype INT32"),
        (
            {"data": [{"A": [1, 2], "B": ["x"]}]},
            'The variable-sized tensor "B" with model shape [-1] needs to have its shape fully',
        ),
        (
            {"data": [{"A": [1, 2], "B": {"content": ["x"], "shape": [2]}}]},
            "provided data for input B has 1 elements, expect 2",
        ),
        ({"data": [{"A": {"b64": "?"}}]}, "the b64 field of tensor A is not base64"),
        ({"data": [{"A": {"b64": 5}}]}, "the value of b64 field should be of type string"),
        ({"data": [{"A": 5}]}, "The tensor values are not supported."),
        (
            {"data": [{"A": [1, 2]}], "validation_data": []},
            "The 'validation_data' field doesn't align with 'data' field in the json file",
        ),
        (
            {"data": [[{"A": [1, 2]}]], "validation_data": [{"C": [1, 2]}]},
            "The 'validation_data' field doesn't align with 'data' field in the json file",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(tmp_path, document, part):
    assert part in refusal(tmp_path, document)


_ACCEPTED = [{"A": [1, 2], "B": {"content": ["x"], "shape": [1]}}]


@example(_ACCEPTED)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["A", "B", "content", "shape", "b64", "x"]), inner, max_size=3
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_data_or_refused(tmp_path_factory, document):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps({"data": document}))
    try:
        data = read_inputs([path], MODEL, 1)
    except InvalidArgumentError:
        assert document is not _ACCEPTED
        return
    assert all(data.streams)


def test_a_directory_has_a_file_for_each_tensor(tmp_path):
    (tmp_path / "A").write_bytes(ints(5, 6))
    (tmp_path / "C").write_bytes(ints(7, 8))
    row = read_inputs([tmp_path], MODEL, 1).streams[0][0]
    assert row.inputs["A"].raw == ints(5, 6)
    assert row.expected == {"C": ints(7, 8)}


def test_texts_of_a_directory_are_lines(tmp_path):
    model = Model("m", "", (Tensor("T", "BYTES", (2,)),), ())
    (tmp_path / "T").write_text("one\ntwo\n")
    row = read_inputs([tmp_path], model, 1).streams[0][0]
    assert deserialize_bytes(memoryview(row.inputs["T"].raw)) == [b"one", b"two"]


def test_a_directory_with_something_else_is_refused(tmp_path):
    (tmp_path / "Q").write_bytes(b"1")
    with pytest.raises(InvalidArgumentError, match="'Q' does not correspond to a valid model"):
        read_inputs([tmp_path], MODEL, 1)


def test_a_directory_that_lacks_an_input_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="failed to open file"):
        read_inputs([tmp_path], MODEL, 1)
