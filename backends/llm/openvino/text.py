# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Text of tokens that come one by one.

A token may be a part of a character, and its text may depend on the tokens before it. So the last
tokens are decoded together at each step, and what that adds to the text before is what is new.
"""

from collections.abc import Callable, Sequence
from typing import Final

Decode = Callable[[Sequence[Sequence[int]]], list[str]]

# What a character that is not whole yet is decoded to.
_CUT: Final = "\ufffd"
# More tokens than a character has, and few enough that decoding them costs little.
_MOST_TOKENS: Final = 48
_KEPT_TOKENS: Final = 8


class GrowingText:
    """Text of one choice.

    Attributes:
        window: The last tokens; what is decoded.
    """

    __slots__ = ("_told", "window")

    def __init__(self) -> None:
        self.window: list[int] = []
        self._told = 0

    def grow(self, text: str, *, is_last: bool) -> str:
        """Return what is new.

        Args:
            text: What the window is decoded to.
            is_last: Whether no more tokens come; a character that is cut stays so.
        """
        whole = text if is_last else text.rstrip(_CUT)
        new = whole[self._told :]
        self._told = max(self._told, len(whole))
        return new

    @property
    def is_long(self) -> bool:
        """Whether the window should be cut."""
        return len(self.window) > _MOST_TOKENS

    def tail(self) -> list[int]:
        """Return the tokens to go on with."""
        return self.window[-_KEPT_TOKENS:]

    def cut(self, text: str) -> None:
        """Go on with the tail alone.

        Args:
            text: What the tail is decoded to.
        """
        # What the text before ends with and was held back is held back in the tail's, too.
        self.window = self.tail()
        self._told = len(text.rstrip(_CUT))


def grown_texts(growing: Sequence[tuple[GrowingText, bool]], decode: Decode) -> list[str]:
    """Return what is new of several texts.

    Args:
        growing: Texts whose windows have new tokens, and whether those were the last.
        decode: Decodes lists of tokens.
    """
    texts = decode([each.window for each, _ in growing]) if growing else []
    new = [
        each.grow(text, is_last=is_last)
        for (each, is_last), text in zip(growing, texts, strict=True)
    ]
    long = [each for each, is_last in growing if each.is_long and not is_last]
    if long:
        for each, text in zip(long, decode([each.tail() for each in long]), strict=True):
            each.cut(text)
    return new
