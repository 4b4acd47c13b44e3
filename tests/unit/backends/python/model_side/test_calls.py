# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.api.backend import ModelInstance
from backends.api.errors import InternalError, RequestCancelledError, UnavailableError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from tests.support.models import context_of, load, write_python_model
from tests.support.recording import RecordingRequest, execute, recorded

CONFIG = """
name: "probe" backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
"""


class Caller:
    """Keeps the calls of a model and answers them as the test says."""

    def __init__(self, answer: "Callable[[Caller, InferenceRequest, Any], None]") -> None:
        self.requests: list[InferenceRequest] = []
        self.decoupled: list[bool] = []
        self.cancelled = threading.Event()
        self.controls: list[Any] = []
        self._answer = answer
        self._sinks: list[Any] = []

    def call(self, request: InferenceRequest, sink: Any, *, decoupled: bool) -> "Caller":
        self.requests.append(request)
        self.decoupled.append(decoupled)
        self._sinks.append(sink)
        self._answer(self, request, sink)
        return self

    def cancel(self) -> None:
        if not self.cancelled.is_set():
            self.cancelled.set()
            for sink in self._sinks:
                sink.fail(RequestCancelledError("gone"))

    def is_model_ready(self, name: str, version: int) -> bool:
        self.controls.append(("ready", name, version))
        return name == "m"

    def load_model(self, name: str, parameters: Any) -> None:
        self.controls.append(("load", name, dict(parameters)))
        if name == "bad":
            raise InternalError("failed to load 'bad'")

    def unload_model(self, name: str, *, unload_dependents: bool) -> None:
        self.controls.append(("unload", name, unload_dependents))


def response(value: int) -> InferenceResponse:
    return InferenceResponse(
        "m", "1", outputs=[tensor_from_numpy("Y", np.array([value], np.int32))], parameters={"k": 1}
    )


def doubled(caller: Caller, request: InferenceRequest, sink: Any) -> None:
    del caller
    value = int(np.frombuffer(request.inputs[0].data, np.int32)[0])
    sink.respond(response(2 * value), final=True)


def twice(caller: Caller, request: InferenceRequest, sink: Any) -> None:
    del caller, request
    sink.respond(response(1), final=False)
    sink.respond(response(2), final=False)
    sink.respond(None, final=True)


def failing(caller: Caller, request: InferenceRequest, sink: Any) -> None:
    del caller, request
    sink.fail(UnavailableError("no instance"))


def erring_first(caller: Caller, request: InferenceRequest, sink: Any) -> None:
    del caller, request
    sink.fail(UnavailableError("not this one"), final=False)
    sink.respond(response(2), final=False)
    sink.respond(None, final=True)


def silent(caller: Caller, request: InferenceRequest, sink: Any) -> None:
    """Answer nothing until the call is cancelled."""


def model(
    root: Path, caller: Caller | None, body: str, *, is_async: bool = False, pause: Any = None
) -> ModelInstance:
    context = context_of(root, CONFIG, caller=caller, pause=pause)
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    source = f"""
import asyncio, json

class TritonPythonModel:
    {"async " if is_async else ""}def execute(self, requests):
        return [{"await " if is_async else ""}self.one(request) for request in requests]

    {"async " if is_async else ""}def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X")
{lines}

def text(value):
    array = np.array([str(value)], dtype=np.object_)
    return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", array)])
"""
    write_python_model(context, source)
    return load(context)


CALL = (
    'call = pb_utils.InferenceRequest(model_name="m", requested_output_names=["Y"], inputs=[x])\n'
)


def run(
    root: Path,
    caller: Caller | None,
    body: str,
    *,
    is_async: bool = False,
    pause: Any = None,
) -> Any:
    instance = model(root, caller, body, is_async=is_async, pause=pause)
    given = recorded({"X": np.array([4], np.int32)})
    execute(instance, given)
    instance.close()
    return given


def text_of(given: RecordingRequest) -> str:
    value = given.arrays()["TEXT"][0]
    assert isinstance(value, bytes)
    return value.decode()


def test_exec_returns_the_response(tmp_path: Path):
    caller = Caller(doubled)
    given = run(
        tmp_path, caller, CALL + "return pb_utils.InferenceResponse(call.exec().output_tensors())"
    )
    assert given.arrays()["Y"].tolist() == [8]
    assert caller.decoupled == [False]


def test_a_request_carries_its_fields(tmp_path: Path):
    caller = Caller(doubled)
    body = """
return text(pb_utils.InferenceRequest(
    request_id="id", correlation_id="s", inputs=[x], requested_output_names=[b"Y"],
    model_name=b"m", model_version=3, flags=1, timeout=7, parameters={"p": True},
    preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
).exec().parameters())
"""
    assert text_of(run(tmp_path, caller, body)) == '{"k": 1}'
    (sent,) = caller.requests
    assert (sent.model_name, sent.model_version, sent.id, sent.outputs) == ("m", 3, "id", ["Y"])
    assert (sent.correlation_id, sent.flags, sent.timeout_us) == ("s", 1, 7)
    assert sent.parameters == {"p": True}


def test_an_error_is_a_response(tmp_path: Path):
    body = (
        CALL
        + "r = call.exec(); return text((r.has_error(), r.error().message(), r.error().code()))"
    )
    text = text_of(run(tmp_path, Caller(failing), body))
    assert "True, 'no instance', <ErrorCode.UNAVAILABLE" in text


def test_responses_of_a_decoupled_model_can_be_gone_through_twice(tmp_path: Path):
    caller = Caller(twice)
    body = CALL + (
        "responses = call.exec(decoupled=True)\n"
        "def values():\n"
        "    return [[int(t.as_numpy()[0]) for t in r.output_tensors()] for r in responses]\n"
        "return text((values(), values()))"
    )
    assert text_of(run(tmp_path, caller, body)) == "([[1], [2], []], [[1], [2], []])"
    assert caller.decoupled == [True]


@pytest.mark.parametrize("is_async", [False, True])
def test_responses_of_a_decoupled_model_go_on_after_an_error(tmp_path: Path, is_async: bool):
    call = "await call.async_exec" if is_async else "call.exec"
    body = CALL + (
        f"responses = {call}(decoupled=True)\n"
        "return text([r.has_error() or len(r.output_tensors()) for r in responses])"
    )
    answer = run(tmp_path, Caller(erring_first), body, is_async=is_async)
    assert text_of(answer) == "[True, 1, 0]"


def test_a_cancelled_iterator_ends_with_an_error(tmp_path: Path):
    body = CALL + (
        "responses = call.exec(decoupled=True)\n"
        "responses.cancel()\n"
        "return text([r.error().message() for r in responses])"
    )
    assert text_of(run(tmp_path, Caller(silent), body)) == "['gone']"


def test_a_dropped_iterator_cancels_its_call(tmp_path: Path):
    caller = Caller(silent)
    run(tmp_path, caller, CALL + "call.exec(decoupled=True)\nreturn text('')")
    assert caller.cancelled.is_set()


@pytest.mark.parametrize("answer", [doubled, twice])
def test_async_exec_is_awaited(tmp_path: Path, answer: Any):
    body = CALL + (
        "first, second = await asyncio.gather(call.async_exec(), call.async_exec())\n"
        "return pb_utils.InferenceResponse(second.output_tensors())"
    )
    expected = 8 if answer is doubled else 1
    assert run(tmp_path, Caller(answer), body, is_async=True).arrays()["Y"].tolist() == [expected]


def test_async_exec_of_a_decoupled_model_gives_an_iterator(tmp_path: Path):
    body = CALL + (
        "responses = await call.async_exec(decoupled=True)\n"
        "return text([len(r.output_tensors()) for r in responses])"
    )
    assert text_of(run(tmp_path, Caller(twice), body, is_async=True)) == "[1, 1, 0]"


@pytest.mark.parametrize(
    ("is_async", "body"),
    [
        (False, "return text(call.exec().error().message())"),
        (True, "r = await call.async_exec()\nreturn text(r.error().message())"),
    ],
)
def test_a_call_is_cancelled_with_the_request_it_is_made_for(
    tmp_path: Path, is_async: bool, body: str
):
    caller = Caller(silent)
    instance = model(tmp_path, caller, CALL + body, is_async=is_async)
    given = recorded({"X": np.array([4], np.int32)})
    given.is_cancelled = True
    execute(instance, given)
    instance.close()
    assert caller.cancelled.is_set()
    assert text_of(given) == "gone"


def test_models_are_controlled(tmp_path: Path):
    caller = Caller(silent)
    body = """
pb_utils.load_model("m", config="{}", files={"file:1/model.py": b"code"})
pb_utils.unload_model("m", unload_dependents=True)
ready = pb_utils.is_model_ready("m"), pb_utils.is_model_ready("other", "2")
try:
    pb_utils.load_model("bad")
except pb_utils.TritonModelException as error:
    return text((ready, str(error)))
"""
    expected = (
        "Failed to load model: Failed to process the request for model 'probe_0_0', "
        "message: failed to load 'bad'"
    )
    assert text_of(run(tmp_path, caller, body)) == repr(((True, False), expected))
    assert caller.controls[:4] == [
        ("load", "m", {"config": "{}", "file:1/model.py": b"code"}),
        ("unload", "m", True),
        ("ready", "m", -1),
        ("ready", "other", 2),
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "pb_utils.InferenceRequest(model_name='m', request_id='7', inputs=[None])",
            "Input tensor for request with id '7' and model name 'm' should not be empty.",
        ),
        (
            "pb_utils.InferenceRequest(model_name='m', inputs=[x], requested_output_names=[''])",
            "Requested output name for request with id '' and model name 'm' should not be empty.",
        ),
        (
            "pb_utils.is_model_ready('m', 'x')",
            "Failed to check model readiness: Failed to process the request for model "
            "'probe_0_0', message: failed to get model version from specified version string 'x' "
            "(details: stol), version should be an integral value > 0",
        ),
        (
            "pb_utils.load_model('m', files=[1])",
            "failed to load model 'm', files should be a dictionary of file paths and file "
            "contents",
        ),
        ("pb_utils.load_model('m', files={'file:1/model.py': 'text'})", "TypeError: "),
    ],
)
def test_wrong_arguments_are_refused_in_tritons_words(tmp_path: Path, call: str, expected: str):
    assert expected in run(tmp_path, Caller(silent), call).error.message


def test_calls_are_possible_only_while_executing(tmp_path: Path):
    body = CALL + "return call.exec()"
    assert (
        "BLS is only supported during the 'execute' function."
        in run(tmp_path, None, body).error.message
    )


class Pauses:
    """Says where the model waited."""

    def __init__(self) -> None:
        self.count = 0
        self.is_paused = False
        self.began = threading.Event()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        assert not self.is_paused
        self.count += 1
        self.is_paused = True
        self.began.set()
        yield
        self.is_paused = False


def paused_run(root: Path, answer: Any, body: str, *, is_async: bool = False) -> tuple[Any, int]:
    pauses = Pauses()

    def answer_while_paused(caller: Caller, request: InferenceRequest, sink: Any) -> None:
        def wait_and_answer() -> None:
            pauses.began.wait(30)
            answer(caller, request, sink)

        threading.Thread(target=wait_and_answer).start()

    caller = Caller(answer_while_paused)
    given = run(root, caller, body, is_async=is_async, pause=pauses)
    assert not pauses.is_paused
    return given, pauses.count


@pytest.mark.parametrize("is_async", [False, True])
def test_an_execution_is_paused_while_it_waits_for_a_call(tmp_path: Path, is_async: bool):
    call = "(await call.async_exec())" if is_async else "call.exec()"
    body = CALL + f"return pb_utils.InferenceResponse({call}.output_tensors())"
    given, count = paused_run(tmp_path, doubled, body, is_async=is_async)
    assert given.arrays()["Y"].tolist() == [8]
    assert count


def test_an_execution_is_paused_while_it_waits_for_a_decoupled_model(tmp_path: Path):
    body = CALL + "return text([len(r.output_tensors()) for r in call.exec(decoupled=True)])"
    given, count = paused_run(tmp_path, twice, body)
    assert text_of(given) == "[1, 1, 0]"
    assert count


def test_an_execution_is_not_paused_without_a_call_to_wait_for(tmp_path: Path):
    pauses = Pauses()
    body = "await asyncio.sleep(0.001)\nreturn text(0)"
    run(tmp_path / "async", Caller(doubled), body, is_async=True, pause=pauses)
    run(tmp_path / "sync", Caller(doubled), CALL + "return text(call.exec())", pause=pauses)
    assert pauses.count == 0


def test_an_execution_is_paused_while_a_model_loads(tmp_path: Path):
    pauses = Pauses()
    body = "pb_utils.load_model('m'); pb_utils.unload_model('m'); return text(0)"
    run(tmp_path, Caller(doubled), body, pause=pauses)
    assert pauses.count == 2
