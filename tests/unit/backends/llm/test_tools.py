# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from backends.api.errors import InvalidArgumentError
from backends.llm.chat.routes import OpenAiRoutes
from tests.support.scripted_engine import RecordingReply, ScriptedEngine

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "time"}},
]
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'
NAMED = {"type": "function", "function": {"name": "weather"}}


def chat(text, parser="", **body):
    engine, reply = ScriptedEngine(text, context_tokens=1000), RecordingReply()
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, **body}
    OpenAiRoutes(engine, parser).answer("chat/completions", json.dumps(body).encode(), reply)
    return engine, reply


def called(message):
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message["tool_calls"]
    ]


@pytest.mark.parametrize(
    ("parser", "text", "before"),
    [
        ("json", CALL, None),
        ("json", f"[{CALL}]", None),
        ("hermes", f"Well. <tool_call>\n{CALL}\n</tool_call>", "Well. "),
    ],
)
def test_a_call_in_the_form_of_the_model_is_found(parser, text, before):
    _, reply = chat(text, parser)
    (choice,) = reply.sent[0]["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert called(choice["message"]) == [("weather", {"city": "Rome"})]
    assert choice["message"]["content"] == before


def test_several_calls_are_numbered_in_chunks():
    text = f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>"
    _, reply = chat(text, "hermes", stream=True)
    last = reply.sent[-1]["choices"][0]
    assert [call["index"] for call in last["delta"]["tool_calls"]] == [0, 1]
    assert last["finish_reason"] == "tool_calls"
    told = [chunk["choices"][0]["delta"].get("content") or "" for chunk in reply.sent]
    assert "".join(told) == ""


@pytest.mark.parametrize("parser", ["json", "hermes"])
@pytest.mark.parametrize("text", ["Rome is warm < <tool", "<tool_call>{oops</tool_call>", "{1}"])
def test_text_that_is_no_call_stays_text(parser, text):
    _, reply = chat(text, parser, stream=True)
    told = [chunk["choices"][0]["delta"].get("content") or "" for chunk in reply.sent]
    assert "".join(told) == text
    assert reply.sent[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_named_tool_is_a_schema_and_its_answer_the_arguments():
    engine, reply = chat('{"city": "Rome"}', tool_choice=NAMED)
    assert json.loads(engine.requests[0].json_schema) == PARAMETERS
    assert called(reply.sent[0]["choices"][0]["message"]) == [("weather", {"city": "Rome"})]


def test_a_required_tool_is_a_schema_of_all_of_them():
    engine, reply = chat(f"[{CALL}]", tool_choice="required")
    schema = json.loads(engine.requests[0].json_schema)
    names = [each["properties"]["name"]["const"] for each in schema["items"]["anyOf"]]
    assert names == ["weather", "time"]
    assert called(reply.sent[0]["choices"][0]["message"]) == [("weather", {"city": "Rome"})]


def test_arguments_that_are_cut_are_text_that_says_length():
    _, reply = chat('{"city": "Rome"}', tool_choice=NAMED, max_tokens=8)
    (choice,) = reply.sent[0]["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


def test_without_a_choice_the_model_is_not_told_of_tools():
    engine, _ = chat("x", tool_choice="none")
    assert engine.tokenizer.decode([engine.requests[0].prompt]) == ["user:Hi;"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "set the model's parameter tool_parser to one of ['hermes','json']"),
        ({"tool_choice": {"function": {"name": "x"}}}, "with one of ['weather','time']"),
        ({"tools": [{"function": {}}]}, "tools[0].function.name is missing"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(body, said):
    with pytest.raises(InvalidArgumentError) as raised:
        chat("x", **body)
    assert said in raised.value.message
