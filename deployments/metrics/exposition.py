# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of Prometheus's text format. Pure."""

from collections.abc import Iterable
from typing import Final

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def label_set(labels: Iterable[tuple[str, str]]) -> str:
    """Return labels in braces, their values escaped; nothing when there are none."""
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def head(name: str, kind: str, text: str) -> tuple[str, str]:
    """Return the lines that begin a family; ``text`` is its help, escaped."""
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
