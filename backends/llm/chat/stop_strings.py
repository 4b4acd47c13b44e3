# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stop strings in a text that comes in pieces."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through up to the first stop string, whose beginning it holds back.

    First is the one that is complete first; of several that end at one place the longest. So the
    text that is let through in all does not depend on how it was cut.

    Args:
        texts: The stop strings; empty ones count for nothing.

    Attributes:
        is_stopped: Whether one was found; nothing is let through any more.
    """

    __slots__ = ("_held", "_texts", "is_stopped")

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(text for text in texts if text)
        self._held = ""
        self.is_stopped = False

    def feed(self, piece: str) -> str:
        """Return what may go out now that a piece has come."""
        if self.is_stopped or not self._texts:
            return "" if self.is_stopped else piece
        text = self._held + piece
        found = [
            (at + len(stop), at) for stop in self._texts for at in (text.find(stop),) if at >= 0
        ]
        if found:
            self.is_stopped = True
            self._held = ""
            return text[: min(found)[1]]
        begin = min(_unfinished(text, stop) for stop in self._texts)
        self._held = text[begin:]
        return text[:begin]

    def end(self) -> str:
        """Return what was held back and is part of no stop string, as the text has ended."""
        held, self._held = self._held, ""
        return held


def _unfinished(text: str, stop: str) -> int:
    """Return where the text's end begins a stop string that is cut; its length if nowhere."""
    for begin in range(max(0, len(text) - len(stop) + 1), len(text)):
        if stop.startswith(text[begin:]):
            return begin
    return len(text)
