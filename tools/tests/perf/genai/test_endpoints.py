# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.model import Model, Tensor
from manta_tools.perf.genai.dataset import Turn
from manta_tools.perf.genai.endpoints import (
    ENDPOINTS,
    TensorNames,
    Wish,
    bodies,
    entry,
    fitted,
)

TURN = Turn("hello", 7, more={"priority": 2})
EXTRA = Wish(("m",), is_streaming=True, extra={"temperature": 0.5})


def body(kind, turn=TURN, **wish):
    return bodies(ENDPOINTS[kind], [turn], Wish(("m",), **wish))[0]


def test_chats_have_a_message():
    assert body("chat") == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 7,
        "priority": 2,
    }


def test_completions_have_a_prompt():
    assert body("completions", Turn("hello")) == {"model": "m", "prompt": ["hello"]}


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_stream_is_asked_for_with_its_usage_or_without(kind):
    streamed = body(kind, is_streaming=True)
    assert (streamed["stream"], streamed["stream_options"]) == (True, {"include_usage": True})
    assert "stream_options" not in body(kind, is_streaming=True, asks_for_usage=False)
    assert "stream" not in body(kind)


def test_extra_inputs_are_in_every_body_and_win():
    assert body("chat", is_streaming=True, extra={"stream_options": None, "n": 1}) | {} == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": None,
        "max_tokens": 7,
        "n": 1,
        "priority": 2,
    }


def test_generate_has_tensors_as_fields():
    names = TensorNames(text_input="PROMPT", stream="STREAM")
    assert body("generate", is_streaming=True, names=names) == {
        "PROMPT": ["hello"],
        "STREAM": True,
        "max_tokens": 7,
        "priority": 2,
    }


def test_vllms_limit_is_a_text_of_its_sampling_parameters():
    found = body("vllm", is_streaming=True, is_exact=True)
    assert json.loads(found.pop("sampling_parameters")[0]) == {"max_tokens": "7", "min_tokens": "7"}
    assert found == {
        "text_input": ["hello"],
        "exclude_input_in_output": [True],
        "stream": [True],
        "priority": [2],
    }
    assert "sampling_parameters" not in body("vllm", Turn("hello"))


def test_tensorrtllms_limit_is_a_tensor_and_always_given():
    assert body("tensorrtllm", Turn("hello"))["max_tokens"] == [256]
    exact = body("tensorrtllm", is_exact=True)
    assert (exact["max_tokens"], exact["min_length"]) == ([7], [7])


def test_several_models_take_turns_or_are_drawn():
    turns = [Turn(str(index)) for index in range(40)]
    chat = ENDPOINTS["chat"]
    in_turn = [each["model"] for each in bodies(chat, turns, Wish(("a", "b")))]
    assert in_turn == ["a", "b"] * 20
    drawn = [each["model"] for each in bodies(chat, turns, Wish(("a", "b"), is_random_model=True))]
    assert set(drawn) == {"a", "b"}
    assert drawn != in_turn


def test_entries_are_perf_analyzers():
    turn = Turn("hello", session_id="s", delay_ms=20, due_ms=5)
    assert entry(ENDPOINTS["chat"], {"a": 1}, turn) == {
        "payload": [{"a": 1}],
        "timestamp": [5],
        "session_id": ["s"],
        "delay": [20],
    }
    assert entry(ENDPOINTS["vllm"], {"a": [1]}, Turn("x")) == {"a": [1]}


def model(*names):
    return Model("m", "", tuple(Tensor(name, "BYTES", (1,)) for name in names), ())


def test_tensors_that_a_model_does_not_have_are_left_out():
    wish = Wish(("m",), is_streaming=True)
    found = fitted(body("vllm", is_streaming=True), model("text_input", "stream"), wish)
    assert found == {"text_input": ["hello"], "stream": [True]}


@pytest.mark.parametrize(
    ("inputs", "missing"), [(("PROMPT",), "text_input"), (("text_input",), "temperature")]
)
def test_a_model_without_the_prompt_or_an_extra_input_is_refused(inputs, missing):
    with pytest.raises(InvalidArgumentError) as caught:
        fitted(body("vllm"), model(*inputs), EXTRA)
    assert f"model 'm' has no input '{missing}', only {inputs[0]}" in caught.value.message


@pytest.mark.parametrize("kind", sorted(ENDPOINTS))
def test_the_prompt_is_found_in_each_body(kind):
    assert ENDPOINTS[kind].prompt(body(kind), TensorNames()) == "hello"


def test_a_chats_prompt_is_all_its_messages():
    messages = [{"content": "one two"}, {"content": "three"}]
    assert ENDPOINTS["chat"].prompt({"messages": messages}, TensorNames()) == "one two three"
