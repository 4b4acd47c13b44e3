# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow keeps of a request's memory: nothing."""

import numpy as np
import pytest

from backends.api.errors import InternalError
from tests.support import saved_models
from tests.support.models import context_of, load
from tests.support.recording import execute, recorded
from tests.support.request_memory import RequestMemory

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed: make frameworks")

BARE = 'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel" '
# Above what is copied into a response in any case.
SIZE = 8192
OVERWRITTEN = np.float32(7).tobytes()


def ask(instance, **values):
    """Return the answered request, whose memory is another's by now."""
    request = recorded({name: np.full(SIZE, value, np.float32) for name, value in values.items()})
    memory = RequestMemory(request)
    execute(instance, request)
    memory.pass_on(OVERWRITTEN)
    return request


def only(request, name):
    (number,) = set(request.arrays()[name].ravel())
    return number


class Before(tf.Module):
    """What it was given in the call before."""

    def __init__(self):
        super().__init__()
        self.last = tf.Variable(tf.zeros([SIZE]))

    @tf.function(input_signature=[tf.TensorSpec([SIZE], tf.float32, name="X")])
    def __call__(self, x):
        before = self.last + 0.0
        self.last.assign(x)
        return {"Y": before}


def test_variable_that_is_assigned_an_input_keeps_a_copy(tmp_path):
    config = BARE + (
        f'input {{ name: "X" data_type: TYPE_FP32 dims: [ {SIZE} ] }} '
        f'output {{ name: "Y" data_type: TYPE_FP32 dims: [ {SIZE} ] }}'
    )
    context = context_of(tmp_path, config)
    model = Before()
    signatures = {"serving_default": model.__call__.get_concrete_function()}
    tf.saved_model.save(model, context.model_path("model.savedmodel"), signatures=signatures)
    instance = load(context)
    assert [only(ask(instance, X=value), "Y") for value in (424242, 5, 6)] == [0, 424242, 5]


def test_optional_input_that_is_left_out_is_read_from_no_earlier_request(tmp_path):
    config = BARE + (
        f'input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {SIZE} ] }} '
        f'input {{ name: "INPUT1" data_type: TYPE_FP32 dims: [ {SIZE} ] optional: true }} '
        f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {SIZE} ] }} '
        f'output {{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ {SIZE} ] }}'
    )
    context = context_of(tmp_path, config)
    directory = context.model_path("model.savedmodel")
    saved_models.save_add_sub(directory, (SIZE,), datatype="FP32")
    instance = load(context)
    for second in (424242, 5):
        assert only(ask(instance, INPUT0=1, INPUT1=second), "OUTPUT0") == 1 + second
        assert isinstance(ask(instance, INPUT0=1).error, InternalError)
