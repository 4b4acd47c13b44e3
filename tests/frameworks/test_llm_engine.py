# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The engine on OpenVINO GenAI with a model of 2 million parameters."""

import json
import threading
import time

import numpy as np
import pytest

from backends.api.errors import (
    InvalidArgumentError,
    RequestCancelledError,
    UnavailableError,
)
from backends.api.request import tensor_as_numpy
from tests.support.models import load
from tests.support.recording import execute, recorded
from tests.support.tiny_llm import TinyLlm, llm_context, make_tiny_llm

TIMEOUT_S = 60
# The first of them may have to train the model.
pytestmark = pytest.mark.timeout(900)
GREEDY = {"temperature": 0, "max_tokens": 24}


@pytest.fixture(scope="module")
def tiny_llm(tmp_path_factory) -> TinyLlm:
    """A language model of 2 million parameters."""
    return make_tiny_llm(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def instance(tiny_llm, tmp_path_factory):
    made = load(llm_context(tmp_path_factory.mktemp("models"), tiny_llm.gguf))
    yield made
    made.close()


def openai(route="completions", **body):
    given = {"openai_request": np.array([json.dumps(body).encode()], object)}
    return recorded(given, parameters={"openai_route": route}, id="r")


def tensors(text, **inputs):
    given = {"text_input": np.array([text.encode()], object)}
    for name, value in inputs.items():
        given[name] = np.array([value], bool if isinstance(value, bool) else object)
    return recorded(given)


def objects(request):
    """The objects of an answer that has ended."""
    assert request.done.wait(TIMEOUT_S)
    found = []
    for answer in request.answers:
        if isinstance(answer, Exception):
            raise answer
        (output,) = answer.outputs
        assert output.name == "openai_response"
        found.append(json.loads(tensor_as_numpy(output)[0]))
    return found


def answered(instance, *requests):
    execute(instance, *requests)
    return [objects(request) for request in requests]


def text_of(chunks):
    return "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])


def load_of(instance):
    return {family.name: family.metrics[0].value for family in instance.custom_metrics()}


def wait_until_idle(instance):
    deadline = time.monotonic() + TIMEOUT_S
    while load_of(instance)["manta_llm_running"]:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_greedy_text_is_that_of_transformers_one_after_another(instance, tiny_llm):
    assert len(tiny_llm.greedy) == 20
    for row in tiny_llm.greedy:
        ((answer,),) = answered(instance, openai(prompt=row["prompt"], **GREEDY))
        assert answer["choices"][0]["text"] == row["text"]
        assert answer["usage"]["prompt_tokens"] == len(row["prompt_ids"])
        assert answer["usage"]["completion_tokens"] == len(row["token_ids"])


def test_greedy_tokens_are_those_of_transformers_sixteen_at_once(instance, tiny_llm):
    rows = tiny_llm.greedy[:16]
    requests = [openai(prompt=row["prompt_ids"], logprobs=0, **GREEDY) for row in rows]
    texts = [answer["choices"][0]["text"] for (answer,) in answered(instance, *requests)]
    assert texts == [row["text"] for row in rows]


@pytest.mark.parametrize("settings", [GREEDY, {"temperature": 1.2, "seed": 5, "max_tokens": 60}])
def test_a_stream_joined_is_the_whole_answer(instance, settings):
    ((whole,),) = answered(instance, openai(prompt="def main(", **settings))
    (chunks,) = answered(
        instance,
        openai(prompt="def main(", stream=True, stream_options={"include_usage": True}, **settings),
    )
    assert len(chunks) > 3
    assert text_of(chunks) == whole["choices"][0]["text"]
    assert chunks[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]


def test_the_last_response_has_the_usage_as_parameters(instance):
    request = openai(prompt="import os\n", stream=True, **GREEDY)
    execute(instance, request)
    usage = objects(request) and request.answers[-1].parameters
    assert usage == {
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": 24,
        "cached_tokens": 0,
    }
    assert all(not answer.parameters for answer in request.answers[:-1])


def test_a_chat_ends_where_the_model_ends_it(instance):
    body = {"messages": [{"role": "user", "content": "Say def self"}], "temperature": 0}
    ((answer,),) = answered(instance, openai("chat/completions", model="tiny", **body))
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].startswith("You said")
    assert "<|" not in choice["message"]["content"]
    assert answer["usage"]["completion_tokens"] < 60


def test_a_stop_string_ends_the_text_before_it(instance, tiny_llm):
    row = tiny_llm.greedy[0]
    stop = row["text"][6:9]
    ((answer,),) = answered(instance, openai(prompt=row["prompt"], stop=stop, **GREEDY))
    (choice,) = answer["choices"]
    assert choice["text"] == row["text"][: row["text"].index(stop)]
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] < 24
    wait_until_idle(instance)


def test_a_seed_repeats_an_answer_and_another_does_not(instance):
    def sampled(seed):
        body = {"prompt": "class ", "temperature": 1.0, "seed": seed, "max_tokens": 30}
        ((answer,),) = answered(instance, openai(**body))
        return answer["choices"][0]["text"]

    assert sampled(3) == sampled(3)
    assert sampled(3) != sampled(4)


def test_a_seed_repeats_an_answer_beside_others(instance):
    def asked(seed):
        return openai(prompt="class ", temperature=1.0, seed=seed, max_tokens=30)

    ((alone,),) = answered(instance, asked(3))
    (beside,), *_ = answered(instance, asked(3), asked(8), asked(9))
    assert beside["choices"][0]["text"] == alone["choices"][0]["text"]


def test_choices_differ_and_are_counted_together(instance):
    body = {"prompt": "class ", "n": 3, "temperature": 1.0, "seed": 1, "max_tokens": 12}
    ((answer,),) = answered(instance, openai(ignore_eos=True, **body))
    assert len({choice["text"] for choice in answer["choices"]}) == 3
    assert answer["usage"]["completion_tokens"] == 36


def test_a_schema_is_kept_to(instance):
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
        "required": ["ok", "kind"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    requests = [
        openai(prompt="x = ", temperature=1.0, seed=seed, max_tokens=120, response_format=form)
        for seed in range(6)
    ]
    choices = [answer["choices"][0] for (answer,) in answered(instance, *requests)]
    ended = [choice for choice in choices if choice["finish_reason"] == "stop"]
    assert ended
    for choice in ended:
        made = json.loads(choice["text"])
        assert set(made) == {"ok", "kind"}
        assert isinstance(made["ok"], bool)


def test_a_schema_that_is_none_is_refused_and_the_engine_goes_on(instance):
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "no such type"}}}
    request = openai(prompt="x", response_format=form, **GREEDY)
    with pytest.raises(InvalidArgumentError, match='has "no such type" at'):
        answered(instance, request)
    assert answered(instance, openai(prompt="x", **GREEDY))
    assert instance.is_ready()


def test_a_step_that_fails_costs_its_requests_and_no_later_one(instance):
    # A pattern of Python's that the grammar's own has not.
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}
    form = {"type": "json_schema", "json_schema": {"schema": schema | {"required": ["a"]}}}
    beside = openai(prompt="x", stream=True, ignore_eos=True, max_tokens=900, temperature=0)
    execute(instance, beside)
    deadline = time.monotonic() + TIMEOUT_S
    while not beside.answers:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    failing = openai(prompt="x", response_format=form, **GREEDY)
    execute(instance, failing)
    assert failing.done.wait(TIMEOUT_S)
    assert beside.done.wait(TIMEOUT_S)
    assert isinstance(failing.error, InvalidArgumentError)
    assert "Lookbehind is not supported" in failing.error.message
    assert "jenkins" not in failing.error.message
    assert isinstance(beside.answers[-1], UnavailableError)
    assert answered(instance, openai(prompt="x", **GREEDY))
    assert instance.is_ready()


def test_logprobs_are_those_of_the_chosen_tokens(instance):
    ((answer,),) = answered(instance, openai(prompt="import ", logprobs=0, **GREEDY))
    rows = answer["choices"][0]["logprobs"]
    assert len(rows["token_logprobs"]) == 24
    assert all(value <= 0 for value in rows["token_logprobs"])
    assert any(value < 0 for value in rows["token_logprobs"])
    assert "".join(rows["tokens"]) == answer["choices"][0]["text"]


def test_a_request_that_is_cancelled_is_let_go_of_within_a_step(instance):
    class Leaving:
        def __init__(self, request):
            self._request = request
            self.request = request.request
            self.steps = 0
            self.is_cancelled = False
            self.begun = threading.Event()

        def respond(self, response, *, final=True):
            assert not final
            self.steps += not self.is_cancelled
            assert not self.is_cancelled
            if self.steps == 4:
                self.is_cancelled = True
                self.begun.set()

        def fail(self, error, *, final=True):
            assert final
            self.error = error

    request = Leaving(
        openai(prompt="def ", stream=True, ignore_eos=True, max_tokens=800, temperature=0)
    )
    execute(instance, request)
    assert request.begun.wait(TIMEOUT_S)
    wait_until_idle(instance)
    assert request.steps == 4
    assert isinstance(request.error, RequestCancelledError)


def test_tensors_of_vllm_are_answered(instance, tiny_llm):
    row = tiny_llm.greedy[1]
    sampling = json.dumps(GREEDY).encode()
    whole = tensors(
        row["prompt"],
        sampling_parameters=sampling,
        return_finish_reason=True,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
        return_cumulative_logprob=True,
    )
    execute(instance, whole)
    assert whole.done.wait(TIMEOUT_S)
    arrays = whole.arrays()
    assert arrays["text_output"].tolist() == [(row["prompt"] + row["text"]).encode()]
    assert arrays["finish_reason"].tolist() == [b"length"]
    assert arrays["num_input_tokens"].tolist() == [len(row["prompt_ids"])]
    assert arrays["num_output_tokens"].tolist() == [24]
    assert arrays["cumulative_logprob"][0] < 0

    stream = tensors(row["prompt"], sampling_parameters=sampling, stream=True)
    execute(instance, stream)
    assert stream.done.wait(TIMEOUT_S)
    pieces = [tensor_as_numpy(answer.outputs[0])[0].decode() for answer in stream.answers]
    assert "".join(pieces) == row["text"]
    assert len(pieces) > 3


def test_tokens_and_requests_are_counted(instance):
    before = load_of(instance)
    answered(instance, openai(prompt="import os\n", **GREEDY))
    after = load_of(instance)
    gained = {name: after[name] - before[name] for name in after}
    assert gained["manta_llm_generated_tokens_total"] == 24
    assert gained["manta_llm_time_to_first_token_seconds"] > 0
    assert after["manta_llm_slots"] == 64


def test_a_prompt_longer_than_the_context_is_refused(instance):
    with pytest.raises(InvalidArgumentError, match="context length is 1024 tokens"):
        answered(instance, openai(prompt="x = 1\n" * 2000))


def test_an_exported_folder_generates_the_same(tiny_llm, tmp_path):
    instance = load(llm_context(tmp_path, tiny_llm.exported))
    row = tiny_llm.greedy[0]
    ((answer,),) = answered(instance, openai(prompt=row["prompt"], **GREEDY))
    assert answer["choices"][0]["text"] == row["text"]
    body = {"messages": [{"role": "user", "content": "Say def self"}], "temperature": 0}
    ((answer,),) = answered(instance, openai("chat/completions", **body))
    assert answer["choices"][0]["finish_reason"] == "stop"
    instance.close()


def test_a_hugging_face_folder_is_refused_with_the_command(tiny_llm, tmp_path):
    with pytest.raises(InvalidArgumentError, match="optimum-cli export openvino"):
        llm_context(tmp_path, tiny_llm.folder)


def test_requests_of_an_engine_that_closes_fail(tiny_llm, tmp_path):
    instance = load(llm_context(tmp_path, tiny_llm.gguf))
    request = openai(prompt="def ", ignore_eos=True, max_tokens=900)
    execute(instance, request)
    instance.close()
    with pytest.raises(UnavailableError, match="is closed"):
        objects(request)
    late = openai(prompt="def ")
    execute(instance, late)
    assert isinstance(late.error, UnavailableError)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_a_schema_nested_too_deeply_fails_its_request_alone(instance, depth):
    schema = '{"items":' * depth + "{}" + "}" * depth
    parameters = json.dumps({"max_tokens": 1, "guided_decoding": {"json": schema}})
    deep = tensors("a", sampling_parameters=parameters.encode())
    execute(instance, deep)
    assert deep.done.wait(TIMEOUT_S)
    assert isinstance(deep.answers[-1], InvalidArgumentError)
    execute(instance, other := tensors("a"))
    assert other.done.wait(TIMEOUT_S)
    assert not isinstance(other.answers[-1], Exception)
