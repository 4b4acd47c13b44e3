# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Dims, names and texts of clients in messages, cut short where there are too many of them."""

from collections.abc import Sequence
from typing import Final

# More than any model has; a request may have hundreds of thousands.
_MOST_DIMS: Final = 32
_MOST_NAMES: Final = 16
_MOST_NAME_CHARACTERS: Final = 256
# Long enough for a model's traceback.
MOST_TEXT_CHARACTERS: Final = 1 << 16


def render_dims(dims: Sequence[int]) -> str:
    """Render dims as Triton does, ``[-1,3,224]``; of many the first ones and their number."""
    shown = ",".join([str(dim) for dim in dims[:_MOST_DIMS]])
    return f"[{shown}{_rest(len(dims) - _MOST_DIMS)}]"


def quote_names(names: Sequence[str]) -> str:
    """Render names as Triton does, ``['a','b']``; of many the first ones and their number."""
    shown = ",".join([f"'{shorten(name)}'" for name in names[:_MOST_NAMES]])
    return f"[{shown}{_rest(len(names) - _MOST_NAMES)}]"


def shorten(text: str, most: int = _MOST_NAME_CHARACTERS) -> str:
    """Return the beginning of a text that is too long, and how long it was."""
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text)} characters)"


def _rest(count: int) -> str:
    return f",... and {count} more" if count > 0 else ""
