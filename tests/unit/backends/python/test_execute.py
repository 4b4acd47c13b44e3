# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    RequestCancelledError,
)
from backends.api.request import TraceContext
from tests.support.python_probe import DECOUPLED, model
from tests.support.recording import execute, recorded

PREFIX = "Failed to process the request(s) for model 'probe_0_0', message: "


def request(value=1, **fields):
    return recorded({"INPUT0": np.full((1, 2), value, np.int32)}, **fields)


def answer(tmp_path, body, *, asked=None, **fields):
    asked = asked or request()
    instance = model(tmp_path, body, **fields)
    execute(instance, asked)
    instance.close()
    return asked


def test_each_request_gets_its_own_response(tmp_path):
    requests = [request(k, id=str(k)) for k in range(3)]
    body = "return [one(int(r.inputs()[0].as_numpy()[0, 0]) * 10) for r in requests]"
    batch = execute(model(tmp_path, body), *requests)
    assert [one.arrays()["OUTPUT0"].tolist() for one in requests] == [
        [[0, 0]],
        [[10, 10]],
        [[20, 20]],
    ]
    assert [one.response.id for one in requests] == ["0", "1", "2"]
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_inputs_can_be_changed_in_place(tmp_path):
    body = (
        'array = pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()\n'
        "array += 41\n"
        "again = requests[0].inputs()[0].as_numpy()\n"
        'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", again)])]'
    )
    asked = request()
    before = bytes(asked.request.inputs[0].data)
    answer(tmp_path, body, asked=asked)
    assert asked.arrays()["OUTPUT0"].tolist() == [[42, 42]]
    assert bytes(asked.request.inputs[0].data) == before


SEVERAL = """
T = pb_utils.Tensor
return [pb_utils.InferenceResponse([
    T("OUTPUT1", np.array([[b"a"]], dtype=object)),
    T("UNDECLARED", np.zeros(1)),
    T("OUTPUT0", np.zeros((1, 2), np.int32)),
])]
"""


def test_outputs_keep_the_models_order_and_undeclared_ones_are_dropped(tmp_path):
    assert list(answer(tmp_path, SEVERAL).arrays()) == ["OUTPUT1", "OUTPUT0"]


def test_outputs_nobody_asked_for_are_dropped(tmp_path):
    asked = request(outputs=["OUTPUT0"])
    assert list(answer(tmp_path, SEVERAL, asked=asked).arrays()) == ["OUTPUT0"]


def test_requested_output_that_is_not_made_is_absent(tmp_path):
    asked = request(outputs=["OUTPUT1"])
    assert answer(tmp_path, "return [one(1)]", asked=asked).arrays() == {}


def test_large_output_the_model_keeps_is_copied(tmp_path):
    body = (
        "self.kept = np.zeros((1, 8192), np.int32)\n"
        'out = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", self.kept)])\n'
        "return [out]"
    )
    instance = model(tmp_path, body)
    asked = request()
    execute(instance, asked)
    instance._model.kept += 7
    assert not asked.arrays()["OUTPUT0"].any()


@pytest.mark.parametrize(
    "made", ["np.zeros((1, 8192), np.int32)", "np.arange(8192).reshape(1, -1)"]
)
def test_large_output_the_model_drops_is_not_copied(tmp_path, made):
    body = (
        f"array = {made}\n"
        "type(self).address = array.ctypes.data\n"
        'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)])]'
    )
    instance = model(tmp_path, body)
    asked = request()
    execute(instance, asked)
    assert asked.arrays()["OUTPUT0"].ctypes.data == instance._model.address


def test_exception_fails_the_batch_with_the_models_frames(tmp_path):
    requests = [request(), request()]
    instance = model(tmp_path, "def inner():\n    raise ValueError('boom')\ninner()")
    execute(instance, *requests)
    for one in requests:
        assert isinstance(one.error, InternalError)
        head, _, frames = one.error.message.partition("\n\nAt:\n")
        assert head == f"{PREFIX}ValueError: boom"
        inner, outer = frames.splitlines()
        assert inner.endswith("model.py(10): inner")
        assert outer.endswith("model.py(11): execute")
        assert one.error.message.endswith("\n")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ValueError()", "ValueError: <EMPTY MESSAGE>"),
        ("raise KeyError('k')", "KeyError: 'k'"),
        ("raise pb_utils.TritonModelException('t')", "TritonModelException: t"),
        ("raise pb_utils.TritonError('t')", "TypeError: exceptions must derive from BaseException"),
    ],
)
def test_exceptions_are_named_as_in_triton(tmp_path, body, says):
    error = answer(tmp_path, body).error
    assert error.message.startswith(f"{PREFIX}{says}\n\nAt:\n")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 3", "Expected a list in the execute return, found type '<class 'int'>'."),
        (
            "return (one(1),)",
            "Expected a list in the execute return, found type '<class 'tuple'>'.",
        ),
        (
            "return one(1)",
            "Expected a list in the execute return, found type "
            "'<class 'c_python_backend_utils.InferenceResponse'>'.",
        ),
        (
            "return []",
            "Number of InferenceResponse objects do not match the number of InferenceRequest "
            "objects. InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n",
        ),
        (
            "return [3]",
            "Expected an 'InferenceResponse' object in the execute function return list, found "
            "type '<class 'int'>'.",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_wrong_return_values_have_the_texts_of_triton(tmp_path, body, says, kind):
    assert answer(tmp_path, body, execute=kind).error.message == PREFIX + says


def test_decoupled_model_must_return_none(tmp_path):
    error = answer(tmp_path, "return [one(1)]", config=DECOUPLED).error
    assert error.message == (
        f"{PREFIX}Python model 'probe_0_0' is using the decoupled mode and the execute function "
        "must return None."
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("", InternalError),
        (", pb_utils.TritonError.NOT_FOUND", NotFoundError),
        (", pb_utils.TritonError.INVALID_ARG", InvalidArgumentError),
        (", pb_utils.TritonError.CANCELLED", RequestCancelledError),
    ],
)
def test_error_in_a_response_keeps_its_code_and_fails_only_its_request(tmp_path, code, kind):
    requests = [request(), request()]
    error = f"pb_utils.InferenceResponse([], pb_utils.TritonError('e'{code}))"
    execute(model(tmp_path, f"return [{error}, one(1)]"), *requests)
    assert type(requests[0].error) is kind
    assert requests[0].error.message == "e"
    assert requests[1].arrays()["OUTPUT0"].tolist() == [[1, 1]]


def test_error_wins_over_outputs(tmp_path):
    body = (
        "tensors = one(1).output_tensors()\n"
        "return [pb_utils.InferenceResponse(tensors, pb_utils.TritonError('e'))]"
    )
    assert answer(tmp_path, body).error.message == "e"


def test_none_without_a_sender_fails_the_request_instead_of_hanging(tmp_path):
    for body in ("return [None]", "return None"):
        assert "returned None for a request" in answer(tmp_path, body).error.message


def test_output_that_cannot_be_written_fails_only_its_request(tmp_path):
    body = (
        'bad = pb_utils.Tensor("OUTPUT1", np.array([["\\ud800"]], dtype=object))\n'
        "return [pb_utils.InferenceResponse([bad]), one(1)]"
    )
    requests = [request(), request()]
    execute(model(tmp_path, body), *requests)
    assert "sent an output that cannot be written" in requests[0].error.message
    assert requests[1].arrays()["OUTPUT0"].tolist() == [[1, 1]]


def test_async_execute_is_awaited(tmp_path):
    body = "await asyncio.sleep(0)\nreturn [one(5) for _ in requests]"
    asked = answer(tmp_path, body, execute="async def")
    assert asked.arrays()["OUTPUT0"].tolist() == [[5, 5]]


def test_async_exception_has_only_the_models_frames(tmp_path):
    body = "await asyncio.sleep(0)\nraise ValueError('aboom')"
    error = answer(tmp_path, body, execute="async def").error
    head, _, frames = error.message.partition("\n\nAt:\n")
    assert head == f"{PREFIX}ValueError: aboom"
    assert len(frames.splitlines()) == 1
    assert "model.py(10): execute" in frames


def test_request_shows_what_the_client_sent(tmp_path):
    body = (
        "import json\n"
        "r = requests[0]\n"
        "seen = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.parameters(),\n"
        "        sorted(r.requested_output_names()), r.is_cancelled(), r.trace().get_context()]\n"
        "out = np.array([[json.dumps(seen)]], dtype=object)\n"
        'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT1", out)])]'
    )
    asked = request(
        id="i", correlation_id="c", flags=1, timeout_us=9, parameters={"k": True, "n": 2, "s": "t"}
    )
    (text,) = answer(tmp_path, body, asked=asked).arrays()["OUTPUT1"].ravel()
    assert json.loads(text) == [
        "i",
        "c",
        1,
        9,
        '{"k": true, "n": 2, "s": "t"}',
        ["OUTPUT0", "OUTPUT1"],
        False,
        None,
    ]


def test_response_parameters_reach_the_client(tmp_path):
    body = "return [pb_utils.InferenceResponse([], parameters={'a': 1, 'b': 's', 'c': True})]"
    assert answer(tmp_path, body).response.parameters == {"a": 1, "b": "s", "c": True}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("{1: 's'}", "Expect parameters keys to have type str, found type <class 'int'>"),
        (
            "{'f': 0.5}",
            "Expect parameters values to have type bool/int/str, found type <class 'float'>",
        ),
        ("[]", ", got <class 'list'>"),
    ],
)
def test_bad_response_parameters_have_the_texts_of_triton(tmp_path, parameters, says):
    body = f"return [pb_utils.InferenceResponse([], parameters={parameters})]"
    assert says in answer(tmp_path, body).error.message


RESCHEDULE = "requests[0].set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)\n"


def test_a_rescheduled_request_is_handed_back_unanswered(tmp_path):
    instance = model(tmp_path, RESCHEDULE + "return [None]")
    asked = request()
    execute(instance, asked)
    assert asked.is_rescheduled
    assert not asked.is_done


def test_a_rescheduled_request_with_a_response_fails(tmp_path):
    body = RESCHEDULE + "return [pb_utils.InferenceResponse([])]"
    error = answer(tmp_path, body).error
    assert "Expected a None object in the execute function return list for reschduled" in (
        error.message
    )


def test_a_decoupled_request_goes_on_with_another_sender(tmp_path):
    body = (
        "sender = requests[0].get_response_sender()\n"
        + RESCHEDULE
        + "sender.send(pb_utils.InferenceResponse([]))"
    )
    instance = model(tmp_path, body, config=DECOUPLED)
    asked = request()
    for _ in range(2):
        asked.is_rescheduled = False
        execute(instance, asked)
        assert asked.is_rescheduled
    assert len(asked.answers) == 2
    assert not asked.is_done


RIGHT = "return [one(1) for _ in requests]"
WRONG = (
    "array = np.zeros((2, 3), np.float64)\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)]) for _ in requests]'
)


def test_an_output_that_is_not_as_configured_is_answered_as_in_triton_and_warned_of_once(
    tmp_path, caplog
):
    instance = model(tmp_path, WRONG)
    for _ in range(2):
        execute(instance, asked := request())
    assert asked.arrays()["OUTPUT0"].shape == (2, 3)
    assert caplog.messages == [
        "model 'probe' answers output 'OUTPUT0' with FP64[2, 3], but its config says "
        "INT32[-1, 2]: correct one of them; clients get what the model made"
    ]


def test_an_output_as_configured_warns_of_nothing(tmp_path, caplog):
    answer(tmp_path, RIGHT)
    assert caplog.messages == []


def test_what_a_model_logs_of_one_request_has_its_id_tenant_and_trace(tmp_path, caplog):
    context = json.dumps({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    asked = request(id="r7", tenant="vision", trace=TraceContext(3, context=context))
    caplog.set_level("INFO")
    body = 'pb_utils.Logger.log_info("x")\n' + RIGHT
    answer(tmp_path, body, asked=asked)
    execute(model(tmp_path, body), request(id="1", trace=TraceContext(4)), request(id="2"))
    first, several = caplog.records
    assert (first.request_id, first.tenant) == ("r7", "vision")
    assert first.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert not hasattr(several, "request_id")
