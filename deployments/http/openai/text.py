# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that take text and give text: chats and completions made of their two tensors.

Such a model says with the parameter ``openai.schema`` that ``text_input`` and ``text_output`` are
what they are called. It is given what it can take: sampling as the input ``sampling_parameters``,
or else as request parameters, and ``stream`` where it has such an input. What it cannot be given
is refused where leaving it out would change the answer.
"""

from typing import Final

import msgspec
import orjson

from backends.api.model_config import ModelConfig, ModelInput
from backends.api.request import InferenceRequest, ParameterValue, Tensor
from deployments.http.codec.openai_errors import FieldError
from deployments.http.openai.body import Asked, read_as
from deployments.http.openai.passing import bytes_tensor
from deployments.http.openai.rendering import Message, render

SCHEMA_PARAMETER: Final = "openai.schema"
CHAT: Final = "chat/completions"
COMPLETIONS: Final = "completions"
ROUTES: Final = (CHAT, COMPLETIONS)

_SCHEMA: Final = "text"
_INPUT: Final = "text_input"
_OUTPUT: Final = "text_output"
_SAMPLING_INPUT: Final = "sampling_parameters"
_STREAM_INPUT: Final = "stream"
# Whether the prompt stays out of the answer, as OpenAI's do.
_EXCLUDE_INPUT: Final = "exclude_input_in_output"
# What is passed to the model, by OpenAI's names and those that engines have added.
_SAMPLING: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
)
_ABSENT: Final = msgspec.Raw(b"null")


class TextAsked(Asked, frozen=True, kw_only=True):
    """A request to a model of text; what it refuses is not built."""

    messages: list[Message] = []
    prompt: str | list[str] = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    best_of: msgspec.Raw = _ABSENT
    echo: msgspec.Raw = _ABSENT
    suffix: msgspec.Raw = _ABSENT
    logprobs: msgspec.Raw = _ABSENT
    logit_bias: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    response_format: msgspec.Raw = _ABSENT


# Fields that the model cannot be given, and the values that ask for nothing.
_REFUSED: Final[dict[str, tuple[bytes, ...]]] = {
    "best_of": (b"1",),
    "echo": (b"false",),
    "suffix": (b'""',),
    "logprobs": (b"false",),
    "logit_bias": (b"{}",),
    "tools": (b"[]",),
    "functions": (b"[]",),
    "response_format": (b'{"type":"text"}', b'{"type": "text"}'),
}
_TEXT_ASKED: Final = msgspec.json.Decoder(TextAsked)


def is_text(config: ModelConfig) -> bool:
    """Whether chats and completions are made of a model's text tensors."""
    return config.parameters.get(SCHEMA_PARAMETER, "").strip() == _SCHEMA


def text_request_of(config: ModelConfig, version: int, route: str, body: bytes) -> InferenceRequest:
    """Return the request for a model of text.

    Args:
        config: The model's.
        version: Its version; -1 lets the version policy choose.
        route: The route that was asked, one of `ROUTES`.
        body: As it came.

    Raises:
        FieldError: The body is wrong, or asks for what the model cannot be given.
    """
    asked = read_as(_TEXT_ASKED, body)
    _refuse(config.name, asked)
    prompt = render(asked.messages) if route == CHAT else _prompt(asked)
    sampling = _sampling(asked)
    inputs = {each.name: each for each in config.input}
    has_batches = config.max_batch_size > 0
    tensors = [_tensor(_INPUT, inputs.get(_INPUT), prompt.encode(), has_batches=has_batches)]
    parameters: dict[str, ParameterValue] = {}
    if _SAMPLING_INPUT in inputs:
        text = orjson.dumps(sampling)
        tensors.append(
            _tensor(_SAMPLING_INPUT, inputs[_SAMPLING_INPUT], text, has_batches=has_batches)
        )
    else:
        parameters = {
            name: value for name, value in sampling.items() if not isinstance(value, list)
        }
    for name, is_set in ((_STREAM_INPUT, bool(asked.stream)), (_EXCLUDE_INPUT, True)):
        given = inputs.get(name)
        if given is not None and given.datatype == "BOOL":
            data = memoryview(b"\1" if is_set else b"\0")
            shape = _shape(given, has_batches=has_batches)
            tensors.append(Tensor(name, "BOOL", shape, data))
    return InferenceRequest(
        config.name, version, inputs=tensors, outputs=[_OUTPUT], parameters=parameters
    )


def _refuse(model_name: str, asked: TextAsked) -> None:
    if asked.n is not None and asked.n != 1:
        raise FieldError(
            f"field 'n' is {asked.n}, but model '{model_name}' gives one answer to a request; send"
            " 1, or several requests",
            "n",
        )
    for name, harmless in _REFUSED.items():
        given = bytes(getattr(asked, name))
        if given not in (b"null", *harmless):
            raise FieldError(
                f"field '{name}' cannot be given to model '{model_name}', which takes text alone;"
                " leave it out",
                name,
            )


def _prompt(asked: TextAsked) -> str:
    prompt = asked.prompt
    prompts = [prompt] if isinstance(prompt, str) else prompt
    if len(prompts) != 1 or not prompts[0]:
        raise FieldError(
            f"field 'prompt' has {sum(map(bool, prompts))} texts; expected one that is not empty",
            "prompt",
        )
    return prompts[0]


def _sampling(asked: TextAsked) -> dict[str, ParameterValue | list[str]]:
    most = asked.max_completion_tokens
    if most is None:
        most = asked.max_tokens
    found: dict[str, ParameterValue | list[str]] = {} if most is None else {"max_tokens": most}
    for name in _SAMPLING:
        value = getattr(asked, name)
        if value is not None:
            found[name] = value
    return found


def _tensor(name: str, given: ModelInput | None, element: bytes, *, has_batches: bool) -> Tensor:
    shape = (1,) if given is None else _shape(given, has_batches=has_batches)
    return bytes_tensor(name, shape, element)


def _shape(given: ModelInput, *, has_batches: bool) -> tuple[int, ...]:
    """Return the shape of one element; the request checks compare it with fixed dims."""
    return ((1,) if has_batches else ()) + tuple(1 for _ in given.dims)
