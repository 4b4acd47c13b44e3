# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The endpoints of language models: what is sent to them, and what of it is the prompt.

Triton: perf_analyzer/genai-perf/genai_perf/config/endpoint_config.py endpoint_type_map,
inputs/converters @263c5f6
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.model import Model
from manta_tools.perf.genai.answers import (
    ReadReply,
    read_generate,
    read_openai,
    read_tensors,
)
from manta_tools.perf.genai.dataset import Turn

Body = dict[str, Any]
# Where TensorRT-LLM's backend has no limit of tokens given; it requires one.
_TENSORRTLLM_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Tensors and fields of Triton's models of language; the defaults are those of its backends.

    Attributes:
        text_input: The prompt.
        text_output: The answer.
        stream: Whether the answer comes in parts.
        sampling_parameters: vLLM's, a JSON text.
    """

    text_input: str = "text_input"
    text_output: str = "text_output"
    stream: str = "stream"
    sampling_parameters: str = "sampling_parameters"


@dataclass(frozen=True, slots=True)
class Wish:
    """What all requests of a run have in common.

    Attributes:
        models: Names of models.
        is_random_model: Whether the model of a request is drawn; else they take turns.
        is_streaming: Whether answers come in parts.
        asks_for_usage: Whether a stream is to say how many tokens it had.
        is_exact: Whether answers shall have no fewer tokens than they may have.
        extra: Further fields of every body.
        names: Of Triton's tensors.
        seed: Of drawn models.
    """

    models: tuple[str, ...]
    is_random_model: bool = False
    is_streaming: bool = False
    asks_for_usage: bool = True
    is_exact: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    names: TensorNames = TensorNames()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A kind of endpoint.

    Attributes:
        service_kind: openai for JSON over HTTP, triton for tensors over a stream of gRPC.
        path: Of answers in one piece; ``{model}`` stands for the model.
        stream_path: Of answers in parts.
        body: Makes the body of a request; of tensors the values by name.
        prompt: Returns the text of a body that is counted as input.
        reader: Returns what reads a response.
    """

    service_kind: str
    path: str
    stream_path: str
    body: Callable[[Turn, str, Wish], Body]
    prompt: Callable[[Mapping[str, Any], TensorNames], str]
    reader: Callable[[TensorNames], ReadReply]


def bodies(endpoint: Endpoint, turns: Sequence[Turn], wish: Wish) -> list[Body]:
    """Return the bodies of all requests."""
    draws = random.Random(f"models {wish.seed}")  # noqa: S311 - the same load again, no secret
    found = []
    for index, turn in enumerate(turns):
        model = (
            draws.choice(wish.models)
            if wish.is_random_model
            else wish.models[index % len(wish.models)]
        )
        found.append(endpoint.body(turn, model, wish))
    return found


def entry(endpoint: Endpoint, body: Body, turn: Turn) -> dict[str, Any]:
    """Return a body as perf_analyzer's files of input data have it."""
    found: dict[str, Any] = {"payload": [body]} if endpoint.service_kind == "openai" else dict(body)
    if turn.due_ms is not None:
        found["timestamp"] = [turn.due_ms]
    if turn.session_id:
        found |= {"session_id": [turn.session_id], "delay": [turn.delay_ms]}
    return found


def fitted(body: Body, model: Model, wish: Wish) -> Body:
    """Return the tensors of a body that the model has; what only some backends have is left out.

    Raises:
        InvalidArgumentError: The model has no such prompt, or none of ``--extra-inputs``.
    """
    known = {each.name for each in model.inputs}
    for name in (wish.names.text_input, *wish.extra):
        if name not in known:
            raise InvalidArgumentError(
                f"model '{model.name}' has no input '{name}', only {', '.join(sorted(known))}; "
                "give --text-input-name, or leave it out of --extra-inputs"
            )
    return {name: values for name, values in body.items() if name in known}


def _openai(turn: Turn, wish: Wish, body: Body) -> Body:
    if wish.is_streaming:
        body["stream"] = True
        if wish.asks_for_usage:
            body["stream_options"] = {"include_usage": True}
    return _limited(turn, wish, body)


def _limited(turn: Turn, wish: Wish, body: Body) -> Body:
    if turn.max_tokens is not None:
        body["max_tokens"] = turn.max_tokens
    return {**body, **wish.extra, **turn.more}


def _chat(turn: Turn, model: str, wish: Wish) -> Body:
    messages = [{"role": "user", "content": turn.text}]
    return _openai(turn, wish, {"model": model, "messages": messages})


def _completions(turn: Turn, model: str, wish: Wish) -> Body:
    return _openai(turn, wish, {"model": model, "prompt": [turn.text]})


def _generate_body(turn: Turn, model: str, wish: Wish) -> Body:
    del model
    body: Body = {wish.names.text_input: [turn.text]}
    if wish.is_streaming:
        body[wish.names.stream] = True
    return _limited(turn, wish, body)


def _tensors(turn: Turn, wish: Wish, body: Body) -> Body:
    body = {wish.names.text_input: [turn.text], "exclude_input_in_output": [True], **body}
    if wish.is_streaming:
        body[wish.names.stream] = [True]
    more = {**wish.extra, **turn.more}
    return {
        **body,
        **{name: value if isinstance(value, list) else [value] for name, value in more.items()},
    }


def _vllm(turn: Turn, model: str, wish: Wish) -> Body:
    del model
    if turn.max_tokens is None:
        return _tensors(turn, wish, {})
    sampling = {"max_tokens": str(turn.max_tokens)}
    if wish.is_exact:
        sampling["min_tokens"] = str(turn.max_tokens)
    text = json.dumps(sampling, separators=(",", ":"))
    return _tensors(turn, wish, {wish.names.sampling_parameters: [text]})


def _tensorrtllm(turn: Turn, model: str, wish: Wish) -> Body:
    del model
    limit = {"max_tokens": [turn.max_tokens or _TENSORRTLLM_TOKENS]}
    if wish.is_exact and turn.max_tokens is not None:
        limit["min_length"] = [turn.max_tokens]
    return _tensors(turn, wish, {**limit})


def _chat_prompt(body: Mapping[str, Any], names: TensorNames) -> str:
    del names
    return " ".join(str(message["content"]) for message in body["messages"])


def _completions_prompt(body: Mapping[str, Any], names: TensorNames) -> str:
    del names
    return " ".join(body["prompt"])


def _text_prompt(body: Mapping[str, Any], names: TensorNames) -> str:
    return " ".join(body[names.text_input])


def _openai_reader(names: TensorNames) -> ReadReply:
    del names
    return read_openai


def _generate_reader(names: TensorNames) -> ReadReply:
    return read_generate(names.text_output)


def _tensor_reader(names: TensorNames) -> ReadReply:
    return read_tensors(names.text_output)


_CHAT: Final = "v1/chat/completions"
_COMPLETIONS: Final = "v1/completions"
_GENERATE: Final = "v2/models/{model}/generate"

# By --endpoint-type; those of tensors by --backend.
ENDPOINTS: Final[dict[str, Endpoint]] = {
    "chat": Endpoint("openai", _CHAT, _CHAT, _chat, _chat_prompt, _openai_reader),
    "completions": Endpoint(
        "openai", _COMPLETIONS, _COMPLETIONS, _completions, _completions_prompt, _openai_reader
    ),
    "generate": Endpoint(
        "openai", _GENERATE, f"{_GENERATE}_stream", _generate_body, _text_prompt, _generate_reader
    ),
    "vllm": Endpoint("triton", "", "", _vllm, _text_prompt, _tensor_reader),
    "tensorrtllm": Endpoint("triton", "", "", _tensorrtllm, _text_prompt, _tensor_reader),
}
