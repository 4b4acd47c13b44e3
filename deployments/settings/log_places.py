# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The file and line that a record of the log came from, also where they are compiled.

Compiled code has no frames, so that logging finds whoever called it: a thread's first line, most
often. Its logger is named after its module, and its source tells where the message stands.
"""

import logging
import sys
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from backends.compiled_form import ROOT

# What of a message is looked for: a longer one goes on in the next line of the source.
_SHOWN_CHARS: Final = 40
_MOST_KNOWN: Final = 512


def place_of(record: logging.LogRecord) -> str:
    """Return the file and line of a record, as ``file.py:12``."""
    if _is_compiled(record.name):
        return _written(record.name, str(record.msg))
    return f"{record.filename}:{record.lineno}"


@cache
def _is_compiled(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return file.endswith(tuple(EXTENSION_SUFFIXES))


@lru_cache(_MOST_KNOWN)
def _written(module: str, message: str) -> str:
    """Return where a module's source has the text of a message; its first line if it has not."""
    source = Path(ROOT, *module.split(".")).with_suffix(".py")
    begin = message.partition("\n")[0][:_SHOWN_CHARS]
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    number = next((at for at, line in enumerate(lines, 1) if begin in line), 1)
    return f"{source.name}:{number}"
