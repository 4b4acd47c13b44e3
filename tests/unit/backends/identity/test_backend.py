# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from backends.api.datatypes import numpy_dtype
from backends.api.errors import InvalidArgumentError, UnsupportedError
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

CONFIG = """
name: "copy" backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
input { name: "INPUT1" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT1" data_type: TYPE_STRING dims: [ 1 ] }
"""


def inputs():
    return {
        "INPUT1": np.array([[b"a\xff"]], dtype=object),
        "INPUT0": np.array([[1.5, -2.0]], dtype=np.float32),
    }


def test_outputs_repeat_inputs_in_config_order(tmp_path):
    request = recorded(inputs(), id="r1")
    execute(load(context_of(tmp_path, CONFIG)), request)
    arrays = request.arrays()
    assert list(arrays) == ["OUTPUT0", "OUTPUT1"]
    assert arrays["OUTPUT0"].tolist() == [[1.5, -2.0]]
    assert arrays["OUTPUT1"].tolist() == [[b"a\xff"]]
    assert request.response.id == "r1"


def test_only_requested_outputs_are_made(tmp_path):
    request = recorded(inputs(), outputs=["OUTPUT1"])
    execute(load(context_of(tmp_path, CONFIG)), request)
    assert list(request.arrays()) == ["OUTPUT1"]


def test_outputs_do_not_share_memory_with_inputs(tmp_path):
    request = recorded({"INPUT0": np.zeros((1, 8192), np.float32), "INPUT1": inputs()["INPUT1"]})
    execute(load(context_of(tmp_path, CONFIG)), request)
    given = np.frombuffer(request.request.inputs[0].data, np.uint8)
    made = np.frombuffer(request.response.outputs[0].data, np.uint8)
    assert not np.shares_memory(given, made)


@pytest.mark.parametrize(
    ("datatype", "shape"),
    [
        ("FP32", [1, 0]),
        ("FP32", [1, 5]),
        ("UINT32", [4, 0]),
        ("UINT32", [8, 5]),
        ("INT8", [0]),
        ("INT8", [7]),
        ("BYTES", [1, 1]),
        ("BF16", [1, 0]),
        ("BF16", [1, 5]),
    ],
)
def test_datatypes_and_empty_tensors_pass(tmp_path, datatype, shape):
    size = 8 if len(shape) == 2 else 0
    name = "STRING" if datatype == "BYTES" else datatype
    given = np.arange(np.prod(shape)).reshape(shape).astype(numpy_dtype(datatype))
    if datatype == "BYTES":
        given = np.array([[b"16384"]], object)
    tensor = f'{{ name: "%s" data_type: TYPE_{name} dims: [ -1 ] }} '
    sides = f"input {tensor % 'INPUT0'} output {tensor % 'OUTPUT0'}"
    config = f'name: "copy" backend: "identity" max_batch_size: {size} {sides}'
    request = recorded({"INPUT0": given})
    execute(load(context_of(tmp_path, config)), request)
    made = request.arrays()["OUTPUT0"]
    assert (made.dtype, made.shape) == (given.dtype, given.shape)
    assert np.array_equal(made, given)


def test_times_of_input_and_output_are_set(tmp_path):
    batch = execute(load(context_of(tmp_path, CONFIG)), recorded(inputs()))
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_config_is_left_as_it_is(tmp_path):
    context = context_of(tmp_path, CONFIG)
    assert auto_complete(context) == context.config


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            'name: "m" backend: "identity" input { name: "I" data_type: TYPE_FP32 dims: [ 1 ] }',
            "1 inputs and 0 outputs",
        ),
        (
            'name: "m" backend: "identity" input { name: "I" data_type: TYPE_FP32 dims: [ 1 ] }'
            'output { name: "O" data_type: TYPE_INT8 dims: [ 1 ] }',
            "datatype FP32 and output 'O' of INT8",
        ),
        (
            'name: "m" backend: "identity" '
            'parameters { key: "execute_delay_ms" value { string_value: "soon" } }',
            "expected a number of milliseconds",
        ),
    ],
)
def test_config_that_cannot_be_copied_is_refused(tmp_path, config, says):
    with pytest.raises(InvalidArgumentError, match=says):
        load(context_of(tmp_path, config))


OPTIONAL = """
name: "copy" backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT16 dims: [ 2 ] }
input { name: "INPUT1" data_type: TYPE_FP32 dims: [ -1, 3 ] optional: true }
input { name: "INPUT2" data_type: TYPE_STRING dims: [ 2 ] optional: true }
output { name: "OUTPUT0" data_type: TYPE_INT16 dims: [ 2 ] }
output { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ -1, 3 ] }
output { name: "OUTPUT2" data_type: TYPE_STRING dims: [ 2 ] }
"""


def test_outputs_of_optional_inputs_not_given_are_zeros(tmp_path):
    request = recorded({"INPUT0": np.array([[1, 2], [3, 4]], np.int16)})
    execute(load(context_of(tmp_path, OPTIONAL)), request)
    arrays = request.arrays()
    assert arrays["OUTPUT0"].tolist() == [[1, 2], [3, 4]]
    assert arrays["OUTPUT1"].tolist() == [[[0.0] * 3]] * 2
    assert arrays["OUTPUT2"].tolist() == [[b"", b""]] * 2


def test_required_input_that_is_missing_fails_its_request_alone(tmp_path):
    wrong = recorded({"INPUT1": np.ones((1, 1, 3), np.float32)})
    right = recorded({"INPUT0": np.array([[1, 2]], np.int16)}, outputs=["OUTPUT0"])
    execute(load(context_of(tmp_path, OPTIONAL)), wrong, right)
    assert wrong.error.code == UnsupportedError.code
    assert wrong.error.message == "failed to get input 'INPUT0'"
    assert right.arrays()["OUTPUT0"].tolist() == [[1, 2]]
