# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What OpenVINO GenAI says when it fails."""

import re
from typing import Final

# What its Python classes raise.
FAILURES: Final = (RuntimeError, ValueError, TypeError)
_NOISE: Final = ("Exception from ", "Check '", "Please, check your environment")
# Time and place in a source, of the library for grammars.
_PLACE: Final = re.compile(r"^\[\d\d:\d\d:\d\d\] \S+:\d+: ")


def said(error: Exception) -> str:
    """Return it on one line, without the places in its source."""
    lines = [_PLACE.sub("", line.strip()) for line in str(error).splitlines()]
    found = [line for line in lines if line and not line.startswith(_NOISE)]
    return " ".join(found or filter(None, lines))
