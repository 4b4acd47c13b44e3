# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The bodies of OpenAI requests, of which the server reads a few fields.

The body itself goes to the model as it came: what the rest means, and whether it is right, its
engine says. One pass reads it; fields that are not read are skipped, not built.
"""

import re
from typing import Final, TypeVar

import msgspec

from deployments.http.codec.openai_errors import FieldError

T = TypeVar("T")

# How msgspec names the field that is wrong, or the one that is not there.
_AT: Final = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `(?P<field>[^`]*)`")


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of a stream: whether a last chunk tells the usage."""

    include_usage: bool | None = None


class Asked(msgspec.Struct, frozen=True):
    """A request, as far as the server reads it.

    Attributes:
        model: The model, perhaps with an adapter: ``NAME`` or ``NAME:LORA``.
        stream: Whether the answer comes in chunks.
        stream_options: Options of that.
        max_tokens: Most tokens of an answer.
        max_completion_tokens: The same by its newer name.
        n: Answers wanted.
        user: On whose behalf, in the client's own words.
    """

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    user: str | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream shall end with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


_ASKED: Final = msgspec.json.Decoder(Asked)


def read_asked(body: bytes | bytearray | memoryview) -> Asked:
    """Return what a body asks for.

    Raises:
        FieldError: It is no JSON object, or a field is missing or of another type.
    """
    asked = read_as(_ASKED, body)
    if not asked.model:
        raise FieldError("field 'model' is empty; send the name of a model", "model")
    return asked


def read_as(decoder: msgspec.json.Decoder[T], body: bytes | bytearray | memoryview) -> T:
    """Return a body as the structure of a decoder.

    Raises:
        FieldError: It does not fit.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error)) from None
    except RecursionError:
        raise FieldError("the request's JSON is nested too deeply; send fewer levels") from None
    except ValueError as error:
        raise FieldError(f"the request is not valid JSON: {error}; send one JSON object") from None


def _wrong_field(text: str) -> FieldError:
    missing = _MISSING.match(text)
    at = _AT.search(text)
    above = at["field"] if at else ""
    if missing:
        field = ".".join(filter(None, (above, missing["field"])))
        return FieldError(f"field '{field}' is missing; the request needs it", field)
    what = text[: at.start()] if at else text
    what = f"{what[:1].lower()}{what[1:]}".replace("`", "")
    if above:
        return FieldError(f"field '{above}': {what}", above)
    return FieldError(f"the request's body: {what}")
