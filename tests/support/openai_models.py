# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model that speaks OpenAI's objects, and one of text, both in Python."""

from pathlib import Path

from tests.support.model_folders import write_folder

# Answers with the words of the last message, one chunk each. It fails at the word "fail", and waits
# behind the word "wait" until it is cancelled.
_PARROT = """
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

CHUNK = {"id": "chatcmpl-1", "created": 1, "model": "parrot", "object": "chat.completion.chunk"}


def response(document, **parameters):
    text = np.array([json.dumps(document).encode()], dtype=np.object_)
    return pb_utils.InferenceResponse([pb_utils.Tensor("openai_response", text)],
                                      parameters=parameters)


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            body = pb_utils.get_input_tensor_by_name(request, "openai_request").as_numpy()[0]
            route = json.loads(request.parameters())["openai_route"]
            try:
                answer(sender, request, route, json.loads(body))
            except pb_utils.TritonModelException as error:
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(*error.args)))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def answer(sender, request, route, body):
    if route == "embeddings":
        row = {"object": "embedding", "index": 0, "embedding": [0.5, len(body["input"])]}
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        sender.send(response({"object": "list", "model": body["model"], "data": [row],
                              "usage": usage}, prompt_tokens=1))
        return
    words = body["messages"][-1]["content"].split()
    usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
    if not body.get("stream"):
        check(words)
        message = {"role": "assistant", "content": " ".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        document = {**CHUNK, "object": "chat.completion", "choices": [choice], "usage": usage}
        sender.send(response(document, prompt_tokens=1, completion_tokens=len(words)))
        return
    for at, word in enumerate(words):
        check(words[at:at + 1])
        delta = {"role": "assistant", "content": word + " "}
        sender.send(response({**CHUNK, "choices": [
            {"index": 0, "delta": delta, "finish_reason": None}]}))
        while word == "wait" and not request.is_cancelled():
            time.sleep(0.02)
    sender.send(response({**CHUNK, "choices": [], "usage": usage},
                         prompt_tokens=1, completion_tokens=len(words), cached_tokens=0))


def check(words):
    if "fail" in words:
        raise pb_utils.TritonModelException("asked to fail", pb_utils.TritonError.INVALID_ARG)
"""
# Says each word of its prompt.
_ECHO = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            prompt = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0]
            for word in prompt.decode().split():
                text = np.array([(word + " ").encode()], dtype=np.object_)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
_DECOUPLED = "model_transaction_policy { decoupled: true }\n"


def write_parrot(repository: Path) -> None:
    """Write the model ``parrot`` with chat/completions and embeddings."""
    config = (
        'input [ { name: "openai_request" data_type: TYPE_STRING dims: [ 1 ] optional: true } ]\n'
        'output [ { name: "openai_response" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
        'parameters { key: "openai.routes" '
        'value { string_value: "chat/completions, embeddings" } }\n'
    )
    write_folder(repository, "parrot", f'backend: "python"\n{_DECOUPLED}{config}', _PARROT)


def write_echo(repository: Path) -> None:
    """Write the model ``echo_text``, a model of text."""
    config = (
        'input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
        'output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]\n'
        'parameters { key: "openai.schema" value { string_value: "text" } }\n'
    )
    write_folder(repository, "echo_text", f'backend: "python"\n{_DECOUPLED}{config}', _ECHO)
