# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines as JSON objects: ``--log-format json``.

    {"time":"2026-11-28T10:12:13.123456Z","level":"info","logger":"manta.python_backend.model",
     "message":"warm","model":"digits","version":"1","instance":"digits_0_0","process":4711,
     "source":"model.py:12"}

``time``, ``level``, ``logger`` and ``message`` are always there, the names in `FIELDS` where they
are known. Lines that a process prints become objects too, with the logger ``stdout`` or ``stderr``.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from deployments.settings.log_places import place_of

# Of a record (`extra`), else of its process.
FIELDS: Final = ("model", "version", "instance", "request_id", "tenant", "trace_id")
_LEVELS: Final = {"CRITICAL": "error"}
_START: Final = b'{"time":"'
_NS_PER_S: Final = 1_000_000_000


def as_json(record: logging.LogRecord, known: Mapping[str, str], traceback: str = "") -> str:
    """Return the line of a record.

    Args:
        record: The record.
        known: Fields of the process, such as the model that it serves.
        traceback: Of the exception that it tells of; empty for none.
    """
    own: dict[str, Any] = record.__dict__
    found = {name: own.get(name) or known.get(name, "") for name in FIELDS}
    return _rendered(
        {
            "time": _time(record.created),
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: str(value) for name, value in found.items() if value},
            "process": record.process,
            "source": place_of(record),
            **({"traceback": traceback} if traceback else {}),
        }
    )


def printed(line: bytes, stream: str, process: str, now_ns: int) -> bytes:
    """Return the line of what a process has printed; one that is of its log stays as it is.

    Args:
        line: What was printed, without its end.
        stream: ``stdout`` or ``stderr``.
        process: The process's name, such as ``digits/1#0`` for an instance of a model.
        now_ns: Since the epoch.
    """
    if line.startswith(_START):
        return line
    model, _, rest = process.rpartition("/")
    version, _, _ = rest.partition("#")
    of_model = {"model": model, "version": version, "instance": process} if model else {}
    row = {
        "time": _time(now_ns / _NS_PER_S),
        "level": "info",
        "logger": stream,
        "message": line.decode(errors="backslashreplace"),
        **of_model,
    }
    return _rendered(row).encode()


def said(text: str, level: str, now_ns: int) -> str:
    """Return the line of a text that a command says."""
    time_text = _time(now_ns / _NS_PER_S)
    return _rendered({"time": time_text, "level": level, "logger": "manta", "message": text})


def _time(seconds: float) -> str:
    micros = int(seconds % 1 * 1e6)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z"


def _rendered(row: dict[str, Any]) -> str:
    # ASCII alone: nothing in it ends a line or moves a terminal.
    return json.dumps(row, separators=(",", ":"))
