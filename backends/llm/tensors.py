# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Text in tensors, as Triton's vLLM backend takes and gives it.

Triton: vllm_backend/src/model.py, utils/request.py @ r25.10
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from backends.api.backend import ExecuteRequest
from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.quoting import shorten
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_as_numpy,
    tensor_from_numpy,
)
from backends.llm.api import Delta, Engine, LlmRequest, Usage
from backends.llm.chat.bodies import SamplingFields, convert
from backends.llm.chat.prompts import Prompt, llm_request

TEXT_INPUT: Final = "text_input"
_STREAM: Final = "stream"
_SAMPLING: Final = "sampling_parameters"
_EXCLUDE: Final = "exclude_input_in_output"

# Name and datatype; all have the dims [1] and are optional, as bodies of the OpenAI API come alone.
INPUTS: Final = (
    (TEXT_INPUT, "BYTES"),
    (_STREAM, "BOOL"),
    (_SAMPLING, "BYTES"),
    (_EXCLUDE, "BOOL"),
    ("return_finish_reason", "BOOL"),
    ("return_cumulative_logprob", "BOOL"),
    ("return_logprobs", "BOOL"),
    ("return_num_input_tokens", "BOOL"),
    ("return_num_output_tokens", "BOOL"),
)
# Name, datatype and dims.
OUTPUTS: Final = (
    ("text_output", "BYTES", -1),
    ("finish_reason", "BYTES", -1),
    ("cumulative_logprob", "FP32", -1),
    ("logprobs", "BYTES", -1),
    ("num_input_tokens", "UINT32", 1),
    ("num_output_tokens", "UINT32", -1),
)
_FAILED: Final = "Error generating stream: "
_USUAL_TOKENS: Final = 16


class _SamplingParameters(SamplingFields, kw_only=True):
    """What the tensor `sampling_parameters` or the request's parameters say."""

    logprobs: int | None = None
    lora_name: str | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_decoding: dict[str, Any] | None = None


@dataclass(slots=True)
class _Choice:
    """What one choice has gained since the last response, and in all."""

    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cumulative: float = 0.0
    finish_reason: str = ""

    def take(self, delta: Delta) -> None:
        self.texts.append(delta.text)
        self.token_ids += delta.token_ids
        self.logprobs += delta.logprobs
        self.cumulative += sum(delta.logprobs)
        self.finish_reason = delta.finish_reason or self.finish_reason

    def clear(self) -> None:
        self.texts, self.token_ids, self.logprobs = [], [], []


def answer_tensors(engine: Engine, request: ExecuteRequest, model: str, version: str) -> None:
    """Have a request with the input `text_input` answered, from the engine's thread.

    Raises:
        InvalidArgumentError: An input or a sampling parameter is wrong.
        UnavailableError: The engine is closed.
    """
    given = {tensor.name: tensor for tensor in request.request.inputs}
    text = text_of(given, TEXT_INPUT)
    streams = bool(_flag(given, _STREAM))
    excludes = _flag(given, _EXCLUDE)
    if streams and excludes is False:
        raise InvalidArgumentError(
            f"{_FAILED}When streaming, `exclude_input_in_output` = False is not allowed. Leave out "
            f"input '{_EXCLUDE}' or input '{_STREAM}' of model '{model}'"
        )
    wanted = {name for name, _, _ in OUTPUTS if _flag(given, f"return_{name}")}
    parameters = _sampling_parameters(given, request.request)
    asked = _llm_request(engine, text, parameters, wanted)
    head = "" if streams or excludes else text
    sink = _TensorSink(engine, request, model, version, asked, wanted, head, streams=streams)
    engine.submit(asked, sink)


def text_of(given: Mapping[str, Tensor], name: str) -> str:
    """Return the text of an input of one element.

    Raises:
        InvalidArgumentError: It is missing, has not one element, or is no UTF-8.
    """
    return element_of(given, name).decode(errors="replace")


def element_of(given: Mapping[str, Tensor], name: str) -> bytes:
    """Return the bytes of an input of one element.

    Raises:
        InvalidArgumentError: It is missing or has not one element.
    """
    tensor = given.get(name)
    if tensor is None:
        raise InvalidArgumentError(f"input '{name}' is missing, expected BYTES of shape [1]")
    elements = tensor_as_numpy(tensor).ravel()
    if len(elements) != 1:
        raise InvalidArgumentError(
            f"input '{name}' has shape {list(tensor.shape)}, expected one element: send a request "
            "for each prompt"
        )
    element: bytes = elements[0]
    return element


def _flag(given: Mapping[str, Tensor], name: str) -> bool | None:
    """Return a flag; None when it is not given."""
    tensor = given.get(name)
    if tensor is None:
        return None
    values = tensor_as_numpy(tensor).ravel()
    if len(values) != 1:
        raise InvalidArgumentError(
            f"input '{name}' has shape {list(tensor.shape)}, expected one BOOL"
        )
    return bool(values[0])


def _sampling_parameters(
    given: Mapping[str, Tensor], request: InferenceRequest
) -> _SamplingParameters:
    loaded: Any = dict(request.parameters)
    if _SAMPLING in given:
        text = element_of(given, _SAMPLING)
        try:
            loaded = msgspec.json.decode(text) if text.strip() else {}
        except msgspec.DecodeError as error:
            raise InvalidArgumentError(
                f"{_FAILED}input '{_SAMPLING}' is no JSON ({error}): "
                f"'{shorten(text.decode(errors='replace'), 80)}'"
            ) from None
        except RecursionError:
            raise InvalidArgumentError(
                f"{_FAILED}input '{_SAMPLING}' is nested too deeply: send fewer levels"
            ) from None
    # Parameters of a request are often texts.
    return convert(loaded, _SamplingParameters, _SAMPLING, strict=False)


def _llm_request(
    engine: Engine, text: str, parameters: _SamplingParameters, wanted: set[str]
) -> LlmRequest:
    parameters.refuse_unsupported()
    if parameters.lora_name:
        raise InvalidArgumentError(
            f"{_FAILED}LoRA feature is not enabled. lora_name is "
            f"'{shorten(parameters.lora_name)}': leave it out"
        )
    structured = parameters.structured_outputs or parameters.guided_decoding or {}
    schema = structured.get("json", "")
    token_ids = engine.tokenizer.encode(text, adds_special=True)
    return llm_request(
        parameters,
        Prompt(token_ids),
        engine.capabilities,
        most_tokens=parameters.max_tokens or _USUAL_TOKENS,
        wants_logprobs=parameters.logprobs is not None
        or not wanted.isdisjoint({"logprobs", "cumulative_logprob"}),
        json_schema=schema if isinstance(schema, str) else msgspec.json.encode(schema).decode(),
    )


class _TensorSink:
    """Makes responses of what an engine generates.

    Args:
        engine: For the texts of single tokens.
        request: What is answered.
        model: The model's name.
        version: Its version.
        asked: What the engine was asked for.
        wanted: Outputs beside the text.
        head: What the text begins with.
        streams: Whether each step is a response of its own.
    """

    def __init__(
        self,
        engine: Engine,
        request: ExecuteRequest,
        model: str,
        version: str,
        asked: LlmRequest,
        wanted: set[str],
        head: str,
        *,
        streams: bool,
    ) -> None:
        self._engine = engine
        self._request = request
        self._model = model
        self._version = version
        self._prompt_tokens = len(asked.prompt)
        self._wanted = wanted
        self._head = head
        self._streams = streams
        self._choices = [_Choice() for _ in range(asked.choices)]

    @property
    def is_cancelled(self) -> bool:
        return self._request.is_cancelled

    def deliver(self, deltas: Sequence[Delta], usage: Usage | None) -> None:
        for delta in deltas:
            self._choices[delta.index].take(delta)
        is_worth = self._streams and any(
            delta.text or delta.finish_reason or delta.logprobs for delta in deltas
        )
        if usage is None and not is_worth:
            return
        outputs = [
            self._output(name)
            for name, _, _ in OUTPUTS
            if name == "text_output" or name in self._wanted
        ]
        for choice in self._choices:
            choice.clear()
        response = InferenceResponse(self._model, self._version, self._request.request.id, outputs)
        self._request.respond(response, final=usage is not None)

    def fail(self, error: TritonError) -> None:
        self._request.fail(type(error)(f"{_FAILED}{error.message}"))

    def _output(self, name: str) -> Tensor:
        values = _VALUES[name](self, self._choices)
        dtype = {"cumulative_logprob": np.float32}.get(name, np.uint32)
        is_text = bool(values) and isinstance(values[0], bytes)
        return tensor_from_numpy(name, np.array(values, dtype=np.object_ if is_text else dtype))

    def texts(self, choices: Sequence[_Choice]) -> list[bytes]:
        """Return the text of each choice."""
        return [(self._head + "".join(choice.texts)).encode() for choice in choices]

    def logprobs(self, choices: Sequence[_Choice]) -> list[bytes]:
        """Return the probabilities of each choice's tokens, as JSON."""
        return [msgspec.json.encode(self._rows(choice)) for choice in choices]

    def prompt_tokens(self, choices: Sequence[_Choice]) -> list[int]:
        """Return how many tokens the prompt has."""
        del choices
        return [self._prompt_tokens]

    def _rows(self, choice: _Choice) -> list[dict[str, Any]]:
        ids = [[each] for each in choice.token_ids]
        texts = self._engine.tokenizer.decode(ids, keeps_special=True) if ids else []
        return [
            {str(token): {"logprob": value, "rank": None, "decoded_token": text}}
            for token, value, text in zip(choice.token_ids, choice.logprobs, texts, strict=True)
        ]


_Values = Callable[[_TensorSink, Sequence[_Choice]], list[Any]]
_VALUES: Final[dict[str, _Values]] = {
    "text_output": _TensorSink.texts,
    "finish_reason": lambda _, choices: [
        (choice.finish_reason or "None").encode() for choice in choices
    ],
    "cumulative_logprob": lambda _, choices: [choice.cumulative for choice in choices],
    "logprobs": _TensorSink.logprobs,
    "num_input_tokens": _TensorSink.prompt_tokens,
    "num_output_tokens": lambda _, choices: [len(choice.token_ids) for choice in choices],
}
