# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chats as plain text, for models that know no messages.

Each message is a line, ``role: content``, and the last line is ``assistant:``, which the model
continues. A model that was trained on a template of its own does better with a backend that has it.
"""

from typing import Final

import msgspec

from deployments.http.codec.openai_errors import FieldError

_TEXT: Final = "text"


class Part(msgspec.Struct, frozen=True):
    """A part of a message's content."""

    type: str
    text: str = ""


class Message(msgspec.Struct, frozen=True):
    """A message of a chat."""

    role: str
    content: str | list[Part] | None = None


def render(messages: list[Message]) -> str:
    """Return a chat as text.

    Raises:
        FieldError: There is no message, or one has a part that is no text.
    """
    if not messages:
        raise FieldError("field 'messages' is empty; send at least one message", "messages")
    lines = [f"{each.role}: {_content(at, each)}" for at, each in enumerate(messages)]
    return "\n".join([*lines, "assistant:"])


def _content(at: int, message: Message) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type != _TEXT:
            raise FieldError(
                f"field 'messages[{at}].content' has a part of type '{part.type}', but the model"
                " takes text alone; send parts of type 'text'",
                f"messages[{at}].content",
            )
    return "".join([part.text for part in content])
