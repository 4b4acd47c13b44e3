# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Names with wildcards, as the policy file has them. Pure."""

import re
from dataclasses import dataclass, field
from typing import Final

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Patterns:
    """Some patterns: ``*`` stands for any characters, ``?`` for one, everything else for itself.

    Attributes:
        texts: As they are written.
    """

    texts: tuple[str, ...]
    _exact: frozenset[str] = field(init=False, repr=False, compare=False)
    _wild: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wild = [text for text in self.texts if "*" in text or "?" in text]
        expression = "|".join(map(_expression, wild))
        object.__setattr__(self, "_exact", frozenset(self.texts).difference(wild))
        object.__setattr__(self, "_wild", re.compile(expression, re.DOTALL) if wild else None)

    @property
    def is_any(self) -> bool:
        """Whether every name matches."""
        return ANY in self.texts

    def match(self, name: str) -> bool:
        """Whether one of them matches the whole of a name."""
        return name in self._exact or (
            self._wild is not None and self._wild.fullmatch(name) is not None
        )


def _expression(text: str) -> str:
    # Two stars next to each other mean what one means, and would take a long time.
    short = re.sub(r"\*+", "*", text)
    return "".join({"*": ".*", "?": "."}.get(char) or re.escape(char) for char in short)
