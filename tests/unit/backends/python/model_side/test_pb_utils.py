# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import ml_dtypes
import numpy as np
import pytest

from backends.api.datatypes import DATATYPES
from backends.api.request import Tensor as WireTensor
from backends.api.request import tensor_as_numpy, tensor_from_numpy
from backends.python.model_side import pb_utils

BFLOAT16 = np.array([[1.5, -2.0]], dtype=ml_dtypes.bfloat16)


def received(array):
    return pb_utils.Tensor.from_wire(tensor_from_numpy("IN", array))


def test_tensor_keeps_its_array():
    array = np.zeros((2, 3), np.float16)
    tensor = pb_utils.Tensor("a", array)
    assert tensor.as_numpy() is array
    assert (tensor.name(), tensor.shape(), tensor.is_cpu()) == ("a", [2, 3], True)
    assert tensor.triton_dtype() == 10


def test_input_is_read_once_and_writable():
    tensor = received(np.arange(3))
    assert tensor.as_numpy() is tensor.as_numpy()
    assert tensor.as_numpy().flags.writeable


@pytest.mark.parametrize(
    "array",
    [np.zeros(1, np.complex64), np.array(["text"]), np.zeros(3, ">i4"), np.zeros(1, "M8[s]")],
)
def test_dtypes_triton_does_not_know_are_refused(array):
    with pytest.raises(pb_utils.TritonModelException, match="NumPy dtype is not supported"):
        pb_utils.Tensor("a", array)


def test_tensor_needs_a_name_and_an_array():
    with pytest.raises(pb_utils.TritonModelException, match="name cannot be an empty string"):
        pb_utils.Tensor("", np.zeros(1))
    with pytest.raises(TypeError, match=r"numpy.ndarray, got list"):
        pb_utils.Tensor("a", [1])


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        (
            np.array([["é", 3, b"k", None, 1.5]], dtype=object),
            ["é".encode(), b"3", b"k", b"None", b"1.5"],
        ),
        (np.array([[b"ab", b"c"]]), [b"ab", b"c"]),
        (np.empty((1, 0), dtype=object), []),
    ],
)
def test_bytes_tensors_are_written_as_in_triton(array, elements):
    wire = pb_utils.Tensor("a", array).to_wire()
    assert wire.datatype == "BYTES"
    assert tensor_as_numpy(wire).ravel().tolist() == elements


@pytest.mark.parametrize("array", [np.arange(12).reshape(3, 4).T, np.arange(12)[::-2]])
def test_strided_arrays_are_written_in_c_order(array):
    wire = pb_utils.Tensor("a", array).to_wire()
    assert np.array_equal(tensor_as_numpy(wire), array)


def test_untouched_input_may_be_passed_on_and_owns_its_bytes():
    buffer = bytearray(np.arange(2).tobytes())
    tensor = pb_utils.Tensor.from_wire(WireTensor("IN", "INT64", (2,), memoryview(buffer)))
    wire = tensor.to_wire()
    buffer[:] = bytes(16)
    assert tensor_as_numpy(wire).tolist() == [0, 1]


@pytest.mark.parametrize(
    "name", [row.name for row in DATATYPES.values() if row.name not in {"BYTES", "BF16"}]
)
def test_dlpack_round_trip_shares_memory(name):
    array = np.ones((2, 3), DATATYPES[name].numpy_name)
    tensor = pb_utils.Tensor("a", array)
    for again in (tensor.to_dlpack(), tensor):
        back = pb_utils.Tensor.from_dlpack("b", again)
        assert back.name() == "b"
        assert back.as_numpy().dtype == array.dtype
        assert np.shares_memory(back.as_numpy(), array)


def test_bfloat16_travels_by_dlpack_only():
    tensor = received(BFLOAT16)
    with pytest.raises(
        pb_utils.TritonModelException, match="BF16 and cannot be converted to NumPy"
    ):
        tensor.as_numpy()
    wire = pb_utils.Tensor.from_dlpack("OUT", tensor.to_dlpack()).to_wire()
    assert wire.datatype == "BF16"
    assert np.array_equal(tensor_as_numpy(wire), BFLOAT16)


def test_numpy_reads_tensors_by_dlpack():
    array = np.arange(4.0)
    assert np.shares_memory(np.from_dlpack(pb_utils.Tensor("a", array)), array)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: received(np.array([b"x"], object)).to_dlpack(), "support for string tensors"),
        (lambda: pb_utils.Tensor.from_dlpack("", np.zeros(1)), "name cannot be an empty string"),
        (lambda: pb_utils.Tensor.from_dlpack("a", 3), "Provided tensor is not supported"),
        (
            lambda: pb_utils.Tensor.from_dlpack("a", np.zeros((3, 4)).T),
            "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in "
            "C-Order are supported.",
        ),
    ],
)
def test_dlpack_misuse_has_the_texts_of_triton(call, says):
    with pytest.raises(pb_utils.TritonModelException, match=says):
        call()


def test_helpers_find_tensors_and_configs_by_name():
    tensor = pb_utils.Tensor("a", np.zeros(1))
    request = pb_utils.InferenceRequest(inputs=[tensor], model_name="m")
    response = pb_utils.InferenceResponse([tensor])
    assert pb_utils.get_input_tensor_by_name(request, "a") is tensor
    assert pb_utils.get_input_tensor_by_name(request, "b") is None
    assert pb_utils.get_output_tensor_by_name(response, "a") is tensor
    assert pb_utils.get_output_tensor_by_name(response, "b") is None
    config = {"input": [{"name": "a", "dims": [1]}]}
    assert pb_utils.get_input_config_by_name(config, "a") == {"name": "a", "dims": [1]}
    assert pb_utils.get_output_config_by_name(config, "a") is None
    assert not pb_utils.using_decoupled_model_transaction_policy(config)


@pytest.mark.parametrize(("number", "kind"), [(1, np.bool_), (8, np.int32), (13, np.object_)])
def test_datatype_numbers_are_those_of_triton(number, kind):
    assert pb_utils.triton_to_numpy_type(number) is kind
    assert pb_utils.numpy_to_triton_type(kind) == number


def test_bytes_helpers_round_trip():
    encoded = pb_utils.serialize_byte_tensor(np.array([[b"a", "b"]], dtype=object))
    assert pb_utils.deserialize_bytes_tensor(encoded).tolist() == [b"a", b"b"]
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
    assert pb_utils.serialize_byte_tensor(np.zeros(1)) is None


def test_errors_have_codes_and_a_default():
    error = pb_utils.TritonError("m")
    assert (error.message(), error.code()) == ("m", pb_utils.TritonError.INTERNAL)
    with pytest.raises(TypeError):
        pb_utils.TritonError("m", 3)


def test_response_shows_what_it_was_made_of():
    response = pb_utils.InferenceResponse([], pb_utils.TritonError("e"), {"k": 1})
    assert response.has_error()
    assert response.error().message() == "e"
    assert json.loads(response.parameters()) == {"k": 1}
    with pytest.raises(pb_utils.TritonModelException, match="response should not be empty"):
        pb_utils.InferenceResponse([None])
    with pytest.raises(TypeError, match="found type '<class 'int'>'"):
        pb_utils.InferenceResponse([1])
    with pytest.raises(TypeError, match="TritonError as error"):
        pb_utils.InferenceResponse([], error="x")


def test_request_a_model_makes_checks_its_arguments():
    with pytest.raises(pb_utils.TritonModelException, match="must be integer or string"):
        pb_utils.InferenceRequest(correlation_id=1.5)
    with pytest.raises(pb_utils.TritonModelException, match="bool/int/str, found type"):
        pb_utils.InferenceRequest(parameters={"a": 1.5})
    with pytest.raises(pb_utils.TritonModelException, match="works on a request that execute"):
        pb_utils.InferenceRequest().get_response_sender()
    with pytest.raises(TypeError, match="timeout of at least 0, got -1"):
        pb_utils.InferenceRequest(timeout=-1)


def test_enums_can_be_taken_for_their_numbers():
    numbers = (pb_utils.TritonError.CANCELLED, pb_utils.Logger.VERBOSE, pb_utils.MetricKind.GAUGE)
    assert [*map(int, numbers), int(pb_utils.TRITONSERVER_MEMORY_CPU)] == [7, 3, 1, 1]
