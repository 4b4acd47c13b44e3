# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, as the clients of a route expect them.

Most streams are unnamed events that end with ``[DONE]``. Those of ``responses`` and ``messages``
name each event by the ``type`` of its object, and end with an object that says so.
"""

from typing import Final

import msgspec

DONE: Final = b"data: [DONE]\n\n"

_NAMED: Final = frozenset(("responses", "messages"))
# Longer names are nobody's; one with a line break would begin a field of its own.
_MOST_NAME_CHARACTERS: Final = 128


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_TYPED: Final = msgspec.json.Decoder(_Typed)


class Framing:
    """How the objects of a route's stream become events.

    Args:
        route: The route, for example ``chat/completions``.
    """

    __slots__ = ("_is_named", "end")

    def __init__(self, route: str) -> None:
        self._is_named = route in _NAMED
        # What ends a stream that has met no error.
        self.end = b"" if self._is_named else DONE

    def event(self, text: bytes) -> bytes:
        """Return the event of one object, given as JSON."""
        if b"\n" in text or b"\r" in text:
            # Between the tokens of JSON, never in them; here they would end the event.
            text = text.replace(b"\r", b" ").replace(b"\n", b" ")
        if not self._is_named:
            return b"data: %s\n\n" % text
        name = _name_of(text)
        return b"event: %s\ndata: %s\n\n" % (name, text) if name else b"data: %s\n\n" % text


def _name_of(text: bytes) -> bytes:
    try:
        name = _TYPED.decode(text).type
    except (ValueError, RecursionError):
        return b""
    return name.encode() if name.isprintable() and len(name) <= _MOST_NAME_CHARACTERS else b""
