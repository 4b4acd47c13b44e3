# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about chats and completions of models that take text and give text."""

import json
from typing import Any

import pytest

from backends.api.errors import UnavailableError
from backends.api.model_config import ModelInput
from tests.support.http_plane import post, running
from tests.support.openai_plane import (
    CHAT,
    COMPLETIONS,
    TEXT_BODY,
    answer,
    element,
    end,
    held,
    objects,
    openai_plane,
    streamed,
    words_config,
)

PROMPT: dict[str, Any] = {"model": "words", "prompt": "Once"}


async def test_a_chat_is_rendered_a_line_a_message() -> None:
    parts = [{"type": "text", "text": "Good "}, {"type": "text", "text": "day"}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": parts, "name": "x"},
        {"role": "assistant", "content": None},
    ]
    async with running(plane=openai_plane()) as here:
        _, pending = await held(here, CHAT, {"model": "words", "messages": messages})
        rendered = b"system: Be brief.\nuser: Good day\nassistant: \nassistant:"
        assert element(pending.request, "text_input") == rendered
        assert pending.request.outputs == ["text_output"]
        assert pending.request.parameters == {}


async def test_a_chat_is_answered_by_all_that_the_model_says() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, TEXT_BODY)
        umlaut = "ü".encode()
        answer(pending, "Gr", name="text_output")
        answer(pending, umlaut[:1], name="text_output")
        answer(pending, umlaut[1:], b"n", name="text_output")
        answer(pending, final=True, prompt_tokens=4, completion_tokens=3, cached_tokens=2)
        got = (await client.answer()).json
        assert got["object"] == "chat.completion"
        assert got["id"].startswith("chatcmpl-")
        assert got["model"] == "words"
        (choice,) = got["choices"]
        assert choice["message"] == {"role": "assistant", "content": "Grün"}
        assert choice["finish_reason"] == "stop"
        assert got["usage"] == {
            "prompt_tokens": 4,
            "completion_tokens": 3,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
        }


async def test_a_completion_without_counts_has_no_usage() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, COMPLETIONS, PROMPT)
        assert element(pending.request, "text_input") == b"Once"
        answer(pending, " upon", name="text_output", final=True, finish_reason="length")
        got = (await client.answer()).json
        assert got["object"] == "text_completion"
        (choice,) = got["choices"]
        assert (choice["text"], choice["finish_reason"]) == (" upon", "length")
        assert "usage" not in got


async def test_a_streamed_chat_says_who_speaks_then_what_then_why_it_ends() -> None:
    body = {**TEXT_BODY, "stream": True, "stream_options": {"include_usage": True}}
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, body)
        answer(pending, b"Gr\xc3", name="text_output")
        answer(pending, b"\xbcn", name="text_output", prompt_tokens=1, completion_tokens=2)
        end(pending)
        chunks = objects((await streamed(client))[2])
        assert {each["object"] for each in chunks} == {"chat.completion.chunk"}
        assert len({each["id"] for each in chunks}) == 1
        assert [each["choices"][0]["delta"] for each in chunks[:-1]] == [
            {"role": "assistant", "content": ""},
            {"content": "Gr"},
            {"content": "ün"},
            {},
        ]
        assert [each["choices"][0]["finish_reason"] for each in chunks[:-1]] == [
            None,
            None,
            None,
            "stop",
        ]
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["total_tokens"] == 3


async def test_a_streamed_completion_ends_a_cut_character_as_a_replaced_one() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, COMPLETIONS, {**PROMPT, "stream": True})
        answer(pending, b" up\xc3", name="text_output")
        end(pending)
        chunks = objects((await streamed(client))[2])
        texts = [each["choices"][0]["text"] for each in chunks]
        assert texts == [" up", "\ufffd", ""]


@pytest.mark.parametrize("max_batch_size", [0, 8])
async def test_sampling_and_stream_go_to_the_inputs_that_a_model_has(max_batch_size: int) -> None:
    config = words_config(
        ModelInput("sampling_parameters", "BYTES", (1,), optional=True),
        ModelInput("stream", "BOOL", (1,), optional=True),
        ModelInput("exclude_input_in_output", "BOOL", (1,), optional=True),
        max_batch_size=max_batch_size,
    )
    body = {**PROMPT, "max_tokens": 9, "temperature": 0, "stop": ["a", "b"], "stream": True}
    async with running(plane=openai_plane(config)) as here:
        _, pending = await held(here, COMPLETIONS, body)
        sent = pending.request
        sampling = json.loads(element(sent, "sampling_parameters"))
        assert sampling == {"max_tokens": 9, "temperature": 0.0, "stop": ["a", "b"]}
        flags = {each.name: bytes(each.data) for each in sent.inputs if each.datatype == "BOOL"}
        assert flags == {"stream": b"\1", "exclude_input_in_output": b"\1"}
        shape = (1, 1) if max_batch_size else (1,)
        assert {each.shape for each in sent.inputs} == {shape}
        assert sent.parameters == {}


async def test_sampling_goes_as_request_parameters_where_a_model_has_no_input_for_it() -> None:
    body = {**PROMPT, "max_completion_tokens": 3, "max_tokens": 9, "top_p": 0.5, "stop": ["a"]}
    async with running(plane=openai_plane()) as here:
        _, pending = await held(here, COMPLETIONS, body)
        assert pending.request.parameters == {"max_tokens": 3, "top_p": 0.5}


@pytest.mark.parametrize(
    ("path", "more", "param"),
    [
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {"messages": None}, "messages"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
        ),
        (CHAT, {"n": 2}, "n"),
        (CHAT, {"tools": [{"type": "function"}]}, "tools"),
        (CHAT, {"response_format": {"type": "json_object"}}, "response_format"),
        (CHAT, {"logprobs": True}, "logprobs"),
        (COMPLETIONS, {"prompt": ""}, "prompt"),
        (COMPLETIONS, {"prompt": ["a", "b"]}, "prompt"),
        (COMPLETIONS, {"prompt": [1, 2]}, "prompt[0]"),
        (COMPLETIONS, {"prompt": "a", "echo": True}, "echo"),
        (COMPLETIONS, {"prompt": "a", "temperature": "hot"}, "temperature"),
    ],
)
async def test_what_such_a_model_cannot_be_given_is_refused(
    path: str, more: dict[str, Any], param: str
) -> None:
    async with running(plane=openai_plane()) as here:
        got = await (await here.connect()).call(post(path, {**TEXT_BODY, **more}))
        assert (got.status, got.json["error"]["param"]) == (400, param)


async def test_fields_that_ask_for_nothing_are_no_hindrance() -> None:
    nothing = {"tools": [], "response_format": {"type": "text"}, "n": 1, "echo": False, "user": "x"}
    async with running(plane=openai_plane()) as here:
        _, pending = await held(here, CHAT, {**TEXT_BODY, **nothing, "logit_bias": None})
        assert pending.request.model_name == "words"


async def test_errors_of_such_a_model_are_like_all_others() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, {**TEXT_BODY, "stream": True})
        pending.sink.fail(UnavailableError("busy"))
        assert (await client.answer()).status == 503


async def test_an_answer_without_text_is_the_models_fault() -> None:
    async with running(plane=openai_plane()) as here:
        client, pending = await held(here, CHAT, TEXT_BODY)
        answer(pending, b"x", name="words", final=True)
        got = await client.answer()
        assert got.status == 500
        assert (
            "answered with 'words' BYTES; expected output 'text_output'"
            in (got.json["error"]["message"])
        )
