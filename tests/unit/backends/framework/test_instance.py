# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What every framework's instance does around its model, with a model in numpy."""

import numpy as np
import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.framework.instance import TensorInstance
from backends.framework.signature import Signature, TensorInfo
from tests.support.models import context_of
from tests.support.recording import execute, recorded

CONFIG = """
name: "m" backend: "none" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "TWICE" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] }
"""


class Numpy(TensorInstance):
    """Doubles and sums X; refuses numbers below zero."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.runs = []

    def run(self, feed, outputs):
        self.runs.append((feed, outputs))
        x = feed["X"]
        if (x < 0).any():
            raise ValueError("below zero")
        made = {"TWICE": x + x, "SUM": x.sum(-1, keepdims=True)}
        return [made[name] for name in outputs]


@pytest.fixture
def model(tmp_path):
    return Numpy(context_of(tmp_path, CONFIG))


def numbers(*values, **fields):
    return recorded({"X": np.array([values], np.float32)}, **fields)


def test_a_batch_runs_as_one_and_each_request_gets_its_own(model):
    requests = [numbers(1, 2), numbers(3, 4), numbers(5, 6, outputs=["SUM"])]
    batch = execute(model, *requests)
    assert len(model.runs) == 1
    assert [each.arrays()["SUM"].tolist() for each in requests] == [[[3]], [[7]], [[11]]]
    assert requests[1].arrays()["TWICE"].tolist() == [[6, 8]]
    assert list(requests[2].arrays()) == ["SUM"]
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_only_outputs_that_somebody_wants_are_computed(model):
    execute(model, numbers(1, outputs=["SUM"]), numbers(2, outputs=["SUM"]))
    assert model.runs[0][1] == ["SUM"]


def test_a_request_that_fails_fails_only_itself(model):
    requests = [numbers(1), numbers(-1), numbers(2)]
    execute(model, *requests)
    assert len(model.runs) == 4
    assert requests[0].arrays()["TWICE"].tolist() == [[2]]
    assert requests[2].arrays()["TWICE"].tolist() == [[4]]
    assert isinstance(requests[1].error, InternalError)
    assert requests[1].error.message == "below zero (model 'm', inputs 'X' [1, 1])"


def test_requests_whose_shapes_differ_run_alone(model):
    requests = [numbers(1, 2), numbers(3)]
    execute(model, *requests)
    assert [each.arrays()["SUM"].tolist() for each in requests] == [[[3]], [[3]]]
    assert len(model.runs) == 2


def test_an_input_alone_is_a_view_of_the_request(model):
    request = recorded({"X": np.ones((1, 8192), np.float32)})
    execute(model, request)
    fed = model.runs[0][0]["X"]
    assert np.shares_memory(fed, np.frombuffer(request.request.inputs[0].data, np.uint8))


def test_an_instance_may_ask_for_inputs_that_it_may_write(tmp_path):
    model = Numpy(context_of(tmp_path, CONFIG), writable_inputs=True)
    request = numbers(1)
    execute(model, request)
    execute(model, numbers(1), numbers(2))
    for feed, _ in model.runs:
        feed["X"][:] = 7
    assert np.frombuffer(request.request.inputs[0].data, np.float32).tolist() == [1]


def test_inputs_that_were_joined_may_be_written_without_asking(model):
    execute(model, numbers(1), numbers(2))
    assert model.runs[0][0]["X"].flags.writeable


def test_scalars_of_the_model_are_one_element_to_clients(tmp_path):
    class Negative(TensorInstance):
        def run(self, feed, outputs):
            assert feed["X"].shape == ()
            return [-feed["X"] for _ in outputs]

    config = CONFIG.replace("max_batch_size: 8", "").replace("-1", "1")
    scalar = Signature((TensorInfo("X", "FP32", ()),), (TensorInfo("SUM", "FP32", ()),))
    request = recorded({"X": np.array([2], np.float32)}, outputs=["SUM"])
    execute(Negative(context_of(tmp_path, config), scalar), request)
    assert request.arrays()["SUM"].tolist() == [-2]


@pytest.mark.parametrize(("decodes", "kind"), [(True, str), (False, bytes)])
def test_strings_are_text_or_bytes_as_the_framework_wants(tmp_path, decodes, kind):
    class Lengths(TensorInstance):
        def run(self, feed, outputs):
            assert all(isinstance(text, kind) for text in feed["X"].ravel())
            return [np.array([[len(text) for text in row] for row in feed["X"]], np.int32)]

    config = """name: "s" max_batch_size: 2
    input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
    output { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }"""
    request = recorded({"X": np.array([["grün".encode()]], object)})
    execute(Lengths(context_of(tmp_path, config), decodes_strings=decodes), request)
    assert request.arrays()["N"].tolist() == [[4 if decodes else 5]]


def test_text_that_is_none_is_the_clients_error(tmp_path):
    config = """name: "s" max_batch_size: 2
    input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }"""
    request = recorded({"X": np.array([[b"\xff"]], object)})
    execute(Numpy(context_of(tmp_path, config), decodes_strings=True), request)
    assert isinstance(request.error, InvalidArgumentError)
    assert request.error.message.startswith("input 'X' of model 's' cannot be read")


def test_an_output_without_the_batch_dimension_is_explained(tmp_path):
    class First(TensorInstance):
        def run(self, feed, outputs):
            return [feed["X"][0].copy() for _ in outputs]

    request = recorded({"X": np.ones((2, 3), np.float32)}, outputs=["TWICE"])
    execute(First(context_of(tmp_path, CONFIG)), request)
    assert "output 'TWICE' with shape [3] for a batch of 2" in request.error.message


def test_a_shape_tensor_is_fed_once_for_the_whole_batch(tmp_path):
    config = CONFIG + (
        'input { name: "AXES" data_type: TYPE_INT32 dims: [ 2 ] is_shape_tensor: true } '
    )
    model = Numpy(context_of(tmp_path, config))
    axes = {"AXES": np.array([7, 8], np.int32)}
    requests = [recorded(axes | {"X": np.array(rows, np.float32)}) for rows in ([[1]], [[2], [3]])]
    execute(model, *requests)
    ((feed, _),) = model.runs
    assert (feed["AXES"].tolist(), feed["X"].tolist()) == ([7, 8], [[1], [2], [3]])
    assert [each.arrays()["TWICE"].tolist() for each in requests] == [[[2]], [[4], [6]]]
    alone = recorded(axes | {"X": np.array([[1]], np.float32)})
    execute(model, alone)
    assert alone.arrays()["TWICE"].tolist() == [[2]]
