# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import json

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.answers import (
    Memory,
    Reply,
    Transcript,
    read_generate,
    read_openai,
    read_tensors,
    read_whole,
)


def raw(document):
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("document", "reply"),
    [
        ({"choices": [{"delta": {"content": "a"}}]}, Reply("a")),
        ({"choices": [{"delta": {"role": "assistant"}}]}, Reply("")),
        ({"choices": [{"delta": {"content": None}}]}, Reply("")),
        ({"choices": [{"delta": {"reasoning_content": "t"}}]}, Reply("", "t")),
        ({"choices": [{"message": {"reasoning": "t", "content": "a"}}]}, Reply("a", "t")),
        ({"choices": [{"text": "a"}]}, Reply("a")),
        (
            {"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": 3}},
            Reply("a", usage=3),
        ),
        ({"choices": [], "usage": {"completion_tokens": 9}}, Reply("", usage=9)),
        ({"choices": [{"text": "a"}], "usage": None}, Reply("a")),
    ],
)
def test_openais_responses_have_texts_and_usage(document, reply):
    assert read_openai(raw(document)) == reply


@pytest.mark.parametrize("text", [b"", b"<html>", b"[]", b'{"choices": [3]}', b'{"usage": 4}'])
def test_what_is_no_response_of_openais_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="the response b"):
        read_openai(text)


def test_generates_text_is_in_the_field_of_its_tensor():
    assert read_generate("text_output")(raw({"text_output": "a"})) == Reply("a")
    assert read_generate("OUT")(raw({"OUT": ["a", "b"]})) == Reply("ab")
    assert read_generate("OUT")(raw({"text_output": "a"})) == Reply("")


def test_a_tensors_text_is_all_its_elements():
    message = service_pb2.ModelStreamInferResponse()
    for name, texts in (("OTHER", ["x"]), ("OUT", ["a", "é"])):
        message.infer_response.outputs.add(name=name, datatype="BYTES", shape=[len(texts)])
        data = serialize_bytes(np.array([text.encode() for text in texts], dtype=object))
        message.infer_response.raw_output_contents.append(data)
    assert read_tensors("OUT")(message.SerializeToString()) == Reply("aé")
    assert read_tensors("text_output")(message.SerializeToString()) == Reply("")


def test_the_last_usage_of_a_stream_counts():
    parts = [
        {"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}},
        {"choices": [{"text": "b"}], "usage": {"completion_tokens": 2}},
        {"choices": []},
    ]
    replies, usage = read_whole([raw(each) for each in parts], read_openai)
    assert [each.text for each in replies] == ["a", "b", ""]
    assert usage == 2
    assert read_whole([], read_openai) == ([], None)


def test_answers_are_kept_until_memory_is_spent():
    told = []
    memory = Memory(5, lambda: told.append("spent"))
    first, second = Transcript(memory), Transcript(memory)
    first.append(b"123")
    second.append(b"45")
    assert not told
    first.append(b"6")
    second.append(b"7")
    assert told == ["spent"]
    assert memory.is_spent
    assert (first.parts, second.parts) == ([b"123"], [b"45"])
    assert first.is_cut
    assert second.is_cut
