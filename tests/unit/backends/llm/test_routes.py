# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.llm.api import Usage
from backends.llm.chat.routes import OpenAiRoutes
from tests.support.scripted_engine import RecordingReply, ScriptedEngine

HELLO = [{"role": "user", "content": "Hi"}]


def answered(engine, route, body, parser=""):
    reply = RecordingReply()
    OpenAiRoutes(engine, parser).answer(route, json.dumps(body).encode(), reply)
    return reply


def chat(engine, parser="", **body):
    body = {"model": "m", "messages": HELLO, **body}
    return answered(engine, "chat/completions", body, parser)


def refused(route="chat/completions", parser="", **body):
    with pytest.raises(InvalidArgumentError) as raised:
        answered(ScriptedEngine("x"), route, body, parser)
    return raised.value.message


def test_a_chat_is_one_object_with_its_usage():
    reply = chat(ScriptedEngine("Hello you"))
    (answer,) = reply.sent
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "m"
    assert answer["id"].startswith("chatcmpl-")
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "Hello you"
    assert choice["finish_reason"] == "stop"
    assert answer["usage"] == {
        "prompt_tokens": 8,
        "completion_tokens": 9,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert reply.usage == Usage(8, 9, 2)


def test_chunks_joined_are_the_whole_text_the_first_with_the_role_the_last_with_the_reason():
    reply = chat(ScriptedEngine("Hello you"), stream=True)
    deltas = [chunk["choices"][0]["delta"] for chunk in reply.sent]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hello you"
    assert [delta.get("role") for delta in deltas] == ["assistant", None, None]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in reply.sent]
    assert reasons == [None, None, "stop"]
    assert len({chunk["id"] for chunk in reply.sent}) == 1
    assert {chunk["object"] for chunk in reply.sent} == {"chat.completion.chunk"}
    assert all("usage" not in chunk for chunk in reply.sent)
    assert reply.usage == Usage(8, 9, 2)


def test_a_stream_that_asks_for_usage_ends_with_a_chunk_without_choices():
    reply = chat(ScriptedEngine("Hello"), stream=True, stream_options={"include_usage": True})
    *chunks, last = reply.sent
    assert [chunk["usage"] for chunk in chunks] == [None, None]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5


def test_an_answer_that_is_cut_says_length():
    (answer,) = chat(ScriptedEngine("Hello you"), max_completion_tokens=4).sent
    assert answer["choices"][0]["message"]["content"] == "Hell"
    assert answer["choices"][0]["finish_reason"] == "length"


def test_each_choice_has_its_number():
    (answer,) = chat(ScriptedEngine("one", "two"), n=2).sent
    assert [(choice["index"], choice["message"]["content"]) for choice in answer["choices"]] == [
        (0, "one"),
        (1, "two"),
    ]


def test_a_chat_may_have_all_tokens_that_the_context_has_room_for():
    engine = ScriptedEngine("x", context_tokens=50)
    chat(engine)
    assert engine.requests[0].most_tokens == 50 - 8


def test_contents_in_parts_are_joined():
    engine = ScriptedEngine("x")
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    chat(engine, messages=[{"role": "user", "content": parts}])
    assert engine.tokenizer.decode([engine.requests[0].prompt]) == ["user:ab;"]


def test_logprobs_come_with_the_tokens():
    (answer,) = chat(ScriptedEngine("ab"), logprobs=True).sent
    assert answer["choices"][0]["logprobs"]["content"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []},
        {"token": "b", "logprob": -0.5, "bytes": [98], "top_logprobs": []},
    ]
    reply = chat(ScriptedEngine("abcd"), logprobs=True, stream=True)
    rows = [row for chunk in reply.sent for row in chunk["choices"][0]["logprobs"]["content"]]
    assert "".join(row["token"] for row in rows) == "abcd"


def test_a_completion_has_sixteen_tokens_unless_it_says_so():
    engine = ScriptedEngine("x")
    answered(engine, "completions", {"model": "m", "prompt": "p"})
    assert engine.requests[0].most_tokens == 16


@pytest.mark.parametrize("streams", [False, True])
def test_several_prompts_are_numbered_choices_of_one_answer(streams):
    body = {"model": "m", "prompt": ["p", "q"], "n": 2, "echo": True, "stream": streams}
    reply = answered(ScriptedEngine("one", "two"), "completions", body)
    texts: dict[int, str] = {}
    for chunk in reply.sent:
        assert chunk["object"] == "text_completion"
        for choice in chunk["choices"]:
            at = choice["index"]
            texts[at] = texts.get(at, "") + choice["text"]
    assert texts == {0: "pone", 1: "ptwo", 2: "qone", 3: "qtwo"}
    assert reply.usage == Usage(4, 12, 4)


def test_a_prompt_may_be_token_ids():
    engine = ScriptedEngine("x")
    answered(engine, "completions", {"prompt": [104, 105]})
    answered(engine, "completions", {"prompt": [[104], [105]]})
    assert [request.prompt for request in engine.requests] == [(104, 105), (104,), (105,)]


def test_fields_of_sampling_reach_the_engine():
    engine = ScriptedEngine("x")
    chat(engine, temperature=0.5, top_p=0.9, top_k=-1, seed=7, stop="END", presence_penalty=1)
    (request,) = engine.requests
    assert (request.sampling.temperature, request.sampling.top_p) == (0.5, 0.9)
    assert (request.sampling.top_k, request.sampling.seed) == (0, 7)
    assert request.stop == ("END",)
    assert request.sampling.presence_penalty == 1


def test_null_is_as_if_a_field_were_not_given():
    engine = ScriptedEngine("x")
    chat(engine, temperature=None, stop=None, stream=None, tools=None, logit_bias=None, n=None)
    assert engine.requests[0].sampling.temperature == 1.0


def test_a_schema_reaches_the_engine_as_text():
    engine = ScriptedEngine("{}")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    chat(engine, response_format=form)
    assert json.loads(engine.requests[0].json_schema) == schema
    chat(engine, response_format={"type": "json_object"})
    assert json.loads(engine.requests[1].json_schema) == {"type": "object"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "missing field 'messages' in the body"),
        ({"messages": []}, "messages is []: expected 'array' of length >= 1"),
        ({"messages": "x"}, "messages is \"x\": expected 'array', got 'str'"),
        ({"messages": HELLO, "temperature": -1}, "temperature is -1: expected 'float' >= 0.0"),
        ({"messages": HELLO, "max_tokens": 0}, "max_tokens is 0: expected 'int' >= 1"),
        ({"messages": HELLO, "n": "2"}, "n is \"2\": expected 'int | null', got 'str'"),
        ({"messages": [{"content": "x"}]}, "messages[0].role is missing"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            'messages[0].content[0] is {"type":"image_url"}, expected a part of type \'text\'',
        ),
        ({"messages": HELLO, "logit_bias": {"1": 2}}, "logit_bias is not supported"),
        ({"messages": HELLO, "top_logprobs": 3}, "top_logprobs is 3 and logprobs is not true"),
        ({"messages": HELLO, "response_format": {"type": "xml"}}, "response_format.type is 'xml'"),
        ({"messages": HELLO, "max_tokens": 99}, "the prompt has 8 tokens and max_tokens is 99"),
        ({"messages": [{"role": "u", "content": "x" * 200}]}, "context length is 100 tokens"),
        ({"messages": HELLO, "tool_choice": "required"}, 'tool_choice is "required" and tools is'),
    ],
)
def test_a_wrong_body_is_refused_by_the_name_of_its_field(body, said):
    assert said in refused(**body)


def test_a_body_that_is_no_json_is_refused():
    with pytest.raises(InvalidArgumentError, match="the body is no JSON"):
        OpenAiRoutes(ScriptedEngine("x")).answer("completions", b"{", RecordingReply())


def test_an_empty_prompt_is_refused():
    assert "prompt is []" in refused("completions", prompt=[])
    assert "neither a string nor a list of token ids" in refused("completions", prompt=[1, "a"])


def test_a_route_that_the_engine_has_not_is_refused():
    assert "no route 'embeddings', expected one of" in refused("embeddings", input="x")


def test_an_answer_is_cancelled_when_nobody_waits_for_it():
    class Waiting(ScriptedEngine):
        def submit(self, request, sink):
            self.sink = sink

    engine = Waiting("x")
    reply = chat(engine)
    assert not engine.sink.is_cancelled
    reply.is_cancelled = True
    assert engine.sink.is_cancelled


def test_a_prompt_that_the_engine_refuses_ends_the_answer_to_all_once():
    class Closing(ScriptedEngine):
        def submit(self, request, sink):
            if self.requests:
                raise UnavailableError("closed")
            self.requests.append(request)
            self.sink = sink

    engine, reply = Closing("x"), RecordingReply()
    body = {"model": "m", "prompt": ["a", "b"]}
    OpenAiRoutes(engine).answer("completions", json.dumps(body).encode(), reply)
    assert isinstance(reply.error, UnavailableError)
    assert engine.sink.is_cancelled
    engine.sink.deliver([], Usage(1, 1))
    assert reply.sent == []


def test_a_body_nested_too_deeply_is_refused():
    body = b'{"model": "m", "prompt": "a", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        OpenAiRoutes(ScriptedEngine("x")).answer("completions", body, RecordingReply())
