# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Bodies of the OpenAI API, as far as an engine reads them; fields it does not know are let be.

Null is as if a field were not given.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from backends.api.errors import InvalidArgumentError
from backends.api.quoting import shorten
from backends.llm.api import Sampling

Body = TypeVar("Body", bound=msgspec.Struct)
Value = TypeVar("Value", int, float)

_MOST_CHOICES = 128
_MOST_STOPS = 64

_NotNegative = Annotated[float, Meta(ge=0)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Count = Annotated[int, Meta(ge=0)]
_TokenIds = list[_Count]


class SamplingFields(msgspec.Struct, kw_only=True):
    """What bodies and the tensor `sampling_parameters` have in common, by their names there."""

    temperature: _NotNegative | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: int | None = None
    n: Annotated[int, Meta(ge=1, le=_MOST_CHOICES)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    stop: str | Annotated[list[str], Meta(max_length=_MOST_STOPS)] | None = None
    stop_token_ids: _TokenIds | None = None
    ignore_eos: bool | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    min_tokens: _Count | None = None
    best_of: int | None = None
    logit_bias: dict[str, float] | None = None

    def sampling(self) -> Sampling:
        """Return how tokens are chosen."""
        usual = Sampling()
        return Sampling(
            temperature=_given(self.temperature, usual.temperature),
            top_p=_given(self.top_p, usual.top_p),
            top_k=max(0, _given(self.top_k, 0)),
            min_p=_given(self.min_p, usual.min_p),
            seed=self.seed,
            presence_penalty=_given(self.presence_penalty, usual.presence_penalty),
            frequency_penalty=_given(self.frequency_penalty, usual.frequency_penalty),
            repetition_penalty=_given(self.repetition_penalty, usual.repetition_penalty),
        )

    def stops(self) -> tuple[str, ...]:
        """Return the stop strings."""
        texts = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in texts if text)

    def refuse_unsupported(self) -> None:
        """Refuse what no engine here does, rather than answer as if it had not been asked.

        Raises:
            InvalidArgumentError: Such a field is given.
        """
        if self.logit_bias:
            raise InvalidArgumentError("logit_bias is not supported by this engine: leave it out")
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise InvalidArgumentError(
                f"best_of is {self.best_of}, expected the value of n ({self.n or 1}): this engine "
                "returns all that it generates"
            )


class StreamOptions(msgspec.Struct):
    """``stream_options``."""

    include_usage: bool | None = None


class JsonSchema(msgspec.Struct):
    """``response_format.json_schema``."""

    schema: dict[str, Any] | None = None
    name: str = ""


class ResponseFormat(msgspec.Struct):
    """``response_format``."""

    type: str
    json_schema: JsonSchema | None = None

    def schema_text(self) -> str:
        """Return the JSON Schema that an answer keeps to, as text; empty for any text.

        Raises:
            InvalidArgumentError: The type is none, or its schema is missing.
        """
        if self.type == "text":
            return ""
        if self.type == "json_object":
            return '{"type":"object"}'
        if self.type != "json_schema":
            raise InvalidArgumentError(
                f"response_format.type is '{shorten(self.type)}', expected 'text', 'json_object' "
                "or 'json_schema'"
            )
        if self.json_schema is None or self.json_schema.schema is None:
            raise InvalidArgumentError(
                "response_format.json_schema.schema is missing; response_format.type 'json_schema' "
                "needs it"
            )
        return msgspec.json.encode(self.json_schema.schema).decode()


class _Body(SamplingFields, kw_only=True):
    """What both routes have."""

    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk of its own for the usage."""
        return bool(self.stream and self.stream_options and self.stream_options.include_usage)

    def schema_text(self) -> str:
        """Return the JSON Schema that answers keep to; see `ResponseFormat.schema_text`."""
        return self.response_format.schema_text() if self.response_format else ""


class ChatBody(_Body, kw_only=True):
    """The body of ``chat/completions``."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionBody(_Body, kw_only=True):
    """The body of ``completions``."""

    prompt: str | list[Any]
    echo: bool | None = None
    suffix: str | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


def read_body(text: bytes, kind: type[Body]) -> Body:
    """Read a body.

    Args:
        text: JSON.
        kind: The structure it shall have.

    Raises:
        InvalidArgumentError: It is no JSON, or a field is missing or has another type or value
            than it may have; the message names it.
    """
    try:
        loaded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise InvalidArgumentError("the body is nested too deeply: send fewer levels") from None
    return convert(loaded, kind, "the body")


def convert(given: Any, kind: type[Body], what: str, *, strict: bool = True) -> Body:
    """Make a structure of what was read from JSON.

    Args:
        given: What was read.
        kind: The structure.
        what: What it is, for messages.
        strict: Whether texts that are numbers or flags are refused where those are expected.

    Raises:
        InvalidArgumentError: A field is missing or wrong.
    """
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(_explained(str(error), given, what)) from None


def _explained(problem: str, given: Any, what: str) -> str:
    """Word a ValidationError with the field's path and value in front.

    Its text is ``<expectation> - at `$.path` ``, without the second part for the whole.
    """
    said, _, at = problem.partition(" - at `$")
    said = said.replace("Object missing required field", "missing field").replace("`", "'")
    path = at.rstrip("`").lstrip(".")
    if said.startswith("missing field"):
        return f"{said} in {path or what}"
    if not path:
        return f"{what} is {_quoted(given)}: {said}"
    value = _value_at(given, path)
    return f"{path} is {_quoted(value)}: {said[:1].lower()}{said[1:]}"


def _value_at(given: Any, path: str) -> Any:
    for part in path.replace("[", ".[").split("."):
        try:
            given = given[int(part[1:-1])] if part.startswith("[") else given[part]
        except (LookupError, TypeError, ValueError):
            return None
    return given


def _quoted(value: Any) -> str:
    return shorten(msgspec.json.encode(value).decode(), 80)


def _given(value: Value | None, usual: Value) -> Value:
    return usual if value is None else value


def required_text(message: Mapping[str, Any], path: str) -> str:
    """Return the text of a message's content: a string, or the texts of its parts joined.

    Raises:
        InvalidArgumentError: A part is no text.
    """
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidArgumentError(
            f"{path}.content is {_quoted(content)}, expected a string or a list of parts"
        )
    texts = []
    for at, part in enumerate(content):
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"{path}.content[{at}] is {_quoted(part)}, expected a part of type 'text': this "
                "model takes text only"
            )
        texts.append(text)
    return "".join(texts)
