# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Large outputs leave without a copy, and nothing that the model does later changes them."""

import numpy as np
import pytest

from backends.api.request import tensor_from_numpy
from tests.support.python_probe import model
from tests.support.recording import execute, recorded

CONFIG = """
name: "probe" backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "AGAIN" data_type: TYPE_INT32 dims: [ -1 ] }
"""
DECOUPLED = CONFIG + "model_transaction_policy { decoupled: true }"
TEXT = """
name: "probe" backend: "python"
output { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }
"""
COUNT = 8192
SENT = np.arange(COUNT, dtype=np.int32)

READ = """
tensor = pb_utils.get_input_tensor_by_name(requests[0], "IN")
array = tensor.as_numpy()
type(self).address = array.ctypes.data
"""
RETURN = 'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]\n'


def served(tmp_path, body, *, config=CONFIG):
    return model(tmp_path, body, config=config)


def asked():
    return recorded({"IN": SENT})


def answered(instance):
    request = asked()
    execute(instance, request)
    return request


def out(request):
    return request.arrays()["OUT"]


@pytest.mark.parametrize("change", ["", "array = array.reshape(2, -1)\n"])
def test_an_inputs_array_is_sent_without_a_copy(tmp_path, change):
    instance = served(tmp_path, READ + change + RETURN)
    request = answered(instance)
    assert out(request).ctypes.data == instance._model.address
    assert np.array_equal(out(request).ravel(), SENT)


@pytest.mark.parametrize(
    "kept",
    [
        "self.kept = array\n",
        "self.kept = array[1:]\n",
        "self.kept = np.frombuffer(memoryview(array), np.int32)\n",
        'self.kept = pb_utils.Tensor.from_dlpack("K", tensor.to_dlpack()).as_numpy()\n',
    ],
)
def test_an_array_that_the_model_keeps_is_copied(tmp_path, kept):
    instance = served(tmp_path, READ + kept + RETURN)
    request = answered(instance)
    assert out(request).ctypes.data != instance._model.address
    kept = instance._model.kept
    # Numpy has what comes by DLPack read-only.
    if kept.flags.writeable:
        kept += 7
    assert np.array_equal(out(request), SENT)


@pytest.mark.parametrize("kept", ["requests[0]", "requests[0].inputs()", "[tensor]"])
def test_an_input_that_the_model_keeps_is_read_again_as_a_copy(tmp_path, kept):
    instance = served(tmp_path, f"{READ}self.kept = {kept}\n{RETURN}")
    request = answered(instance)
    kept = instance._model.kept
    (tensor,) = kept if isinstance(kept, list) else kept.inputs()
    assert tensor.shape() == [COUNT]
    again = tensor.as_numpy()
    assert np.array_equal(again, SENT)
    assert tensor.as_numpy() is again
    again += 7
    assert np.array_equal(out(request), SENT)


def test_an_input_that_was_sent_outlives_the_requests_memory(tmp_path):
    instance = served(tmp_path, f"{READ}self.kept = tensor\n{RETURN}")
    memory = bytearray(SENT.tobytes())
    request = recorded({})
    tensor = tensor_from_numpy("IN", SENT)
    tensor.data = memoryview(memory)
    request.request.inputs = [tensor]
    execute(instance, request)
    memory[:] = bytes(len(memory))
    assert np.array_equal(instance._model.kept.as_numpy(), SENT)


@pytest.mark.parametrize("made", ["array", "np.arange(8192, dtype=np.int32)"])
def test_a_response_of_an_earlier_request_may_be_written_to_and_sent_again(tmp_path, made):
    body = (
        'if hasattr(self, "kept"):\n'
        "    self.kept.output_tensors()[0].as_numpy()[:] += 7\n"
        "else:\n"
        "    array = requests[0].inputs()[0].as_numpy()\n"
        f'    self.kept = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", {made})])\n'
        "return [self.kept]"
    )
    instance = served(tmp_path, body)
    requests = [answered(instance) for _ in range(3)]
    for times, request in enumerate(requests):
        assert np.array_equal(out(request), SENT + 7 * times)


def test_one_response_for_two_requests_is_in_both(tmp_path):
    instance = served(tmp_path, READ + RETURN.replace("])]", "])] * 2"))
    requests = [asked(), asked()]
    execute(instance, *requests)
    assert all(np.array_equal(out(request), SENT) for request in requests)


@pytest.mark.parametrize("other", ["array", "array[:4096]"])
def test_two_outputs_of_one_array_are_right_both(tmp_path, other):
    body = (
        f"{READ}self.kept = tensor\n"
        'made = [pb_utils.Tensor("OUT", array), pb_utils.Tensor("AGAIN", ' + other + ")]\n"
        "return [pb_utils.InferenceResponse(made)]"
    )
    instance = served(tmp_path, body)
    request = answered(instance)
    instance._model.kept.as_numpy()[:] = 0
    again = request.arrays()["AGAIN"]
    assert np.array_equal(out(request), SENT)
    assert np.array_equal(again, SENT[: len(again)])


def test_an_output_of_another_requests_array_is_copied(tmp_path):
    body = (
        "arrays = [each.inputs()[0].as_numpy() for each in requests]\n"
        "self.kept = requests\n"
        'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)])\n'
        "        for each in reversed(arrays)]"
    )
    instance = served(tmp_path, body)
    requests = [recorded({"IN": SENT + k}) for k in range(2)]
    execute(instance, *requests)
    for each in instance._model.kept:
        each.inputs()[0].as_numpy()[:] = 0
    assert np.array_equal(out(requests[0]), SENT + 1)
    assert np.array_equal(out(requests[1]), SENT)


@pytest.mark.parametrize("made", ["array", "array.copy()"])
def test_responses_of_a_decoupled_model_keep_what_they_were_sent_with(tmp_path, made):
    body = (
        f"{READ}array = {made}\n"
        "sender = requests[0].get_response_sender()\n"
        'tensor = pb_utils.Tensor("OUT", array)\n'
        "del array\n"
        "for _ in range(3):\n"
        "    sender.send(pb_utils.InferenceResponse([tensor]))\n"
        "    tensor.as_numpy()[:] += 1\n"
        "    requests[0].inputs()[0].as_numpy()[:] += 1\n"
        "sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
    )
    request = asked()
    execute(served(tmp_path, body, config=DECOUPLED), request)
    step = 2 if made == "array" else 1
    sent = [np.frombuffer(answer.outputs[0].data, np.int32) for answer in request.answers]
    assert [bool(np.array_equal(each, SENT + k * step)) for k, each in enumerate(sent)] == [
        True
    ] * 3


def test_large_strings_are_what_they_were_after_they_were_sent(tmp_path):
    body = (
        "if not hasattr(self, 'kept'):\n"
        '    self.kept = pb_utils.Tensor("TEXT", np.array(["é"] * 8192, dtype=object))\n'
        "assert self.kept.as_numpy()[0] == 'é'\n"
        "return [pb_utils.InferenceResponse([self.kept])]"
    )
    instance = served(tmp_path, body, config=TEXT)
    for request in (recorded({}), recorded({})):
        execute(instance, request)
        assert request.arrays()["TEXT"].tolist() == ["é".encode()] * COUNT
