# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines in Triton's two formats or as JSON, and the one place that sets a process's logging up.

Triton: common/include/triton/common/logging.h @83adf7c
"""

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

from backends.compiled_form import PACKAGES
from deployments.settings.json_lines import as_json
from deployments.settings.log_places import place_of
from deployments.settings.server_settings import LogSettings

# The packages of this project, what models log and what asyncio says of callbacks that raised; Ray
# and others keep their own logging.
_ROOTS: Final = ("asyncio", *sorted(PACKAGES))
_LETTERS: Final = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "E"}
# Of each write to a peer that has gone, thousands in a tick perhaps; its connection ends anyway.
_LOST_PEER: Final = "socket.send() raised exception."
# How a line of the log begins, in either format.
_HEADING: Final = re.compile(r"^(?=[IWE][0-9]{4} |[0-9]{4}-[0-9]{2}-[0-9]{2}T)", re.MULTILINE)
_UNESCAPED: Final = os.environ.get("TRITON_SERVER_ESCAPE_LOG_MESSAGES") == "0"

JSON: Final = "json"

_installed: list[logging.Handler] = []
# What is known of all lines of this process, by name of `json_lines.FIELDS`.
_known: dict[str, str] = {}


def set_up_logging(settings: LogSettings) -> None:
    """Log from now on as the settings say; replaces what an earlier call set up."""
    handler: logging.Handler
    if settings.file:
        handler = logging.FileHandler(settings.file, mode="a", delay=True)
    else:
        # Not sys.stderr: in its replicas Serve takes lines written there for its own log, and drops
        # them below its level.
        handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(_formatter(settings.format))
    handler.addFilter(SeverityFilter(settings))
    _install(handler, logging.DEBUG if settings.verbose_level > 0 else logging.INFO)


def log_until_told(level: str, style: str = "default") -> None:
    """Log to standard error until there are settings; the root logger is a model's."""
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(style))
    _install(handler, level)


def set_known_fields(fields: Mapping[str, str]) -> None:
    """Say what all lines of this process are of, by name of `json_lines.FIELDS`."""
    _known.clear()
    _known.update(fields)


def _install(handler: logging.Handler, level: int | str) -> None:
    for name in _ROOTS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        for old in _installed:
            logger.removeHandler(old)
        logger.addHandler(handler)
    for old in _installed:
        old.close()
    _installed[:] = [handler]


def _formatter(style: str) -> logging.Formatter:
    return JsonFormatter() if style == JSON else TritonFormatter(style)


class SeverityFilter(logging.Filter):
    """Lets through the severities that are on; each can be off by itself.

    Args:
        settings: Which are.
    """

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._is_on = {
            "I": settings.info,
            "W": settings.warning,
            "E": settings.error,
        }

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if record.levelno < logging.INFO:
            return True  # only there when verbose
        if record.name == "asyncio" and record.msg == _LOST_PEER:
            return False
        return self._is_on[_LETTERS.get(record.levelname, "E")]


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback.

        Not by way of `print`, as the class above has it: in a replica Ray Serve puts a `print` in
        its place that writes tuples into files.
        """
        return "".join(traceback.format_exception(*ei)).rstrip("\n")


class JsonFormatter(_Formatter):
    """Formats a record as a JSON object; see `deployments.settings.json_lines`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found = self.formatException(record.exc_info) if record.exc_info else ""
        return as_json(record, _known, found)


class TritonFormatter(_Formatter):
    """Formats a record as Triton would.

    Args:
        style: ``default`` or ``ISO8601``.
    """

    def __init__(self, style: str) -> None:
        super().__init__()
        self._is_iso = style == "ISO8601"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows it."""
        letter = _LETTERS.get(record.levelname, "E")
        utc = time.gmtime(record.created)
        if self._is_iso:
            heading = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', utc)} {letter}"
        else:
            micros = int(record.created % 1 * 1e6)
            heading = f"{letter}{time.strftime('%m%d %H:%M:%S', utc)}.{micros:06d}"
        message = record.getMessage()
        text = message if _UNESCAPED else _shown(json.dumps(message, ensure_ascii=False))
        line = f"{heading} {record.process} {place_of(record)}] {text}"
        if record.exc_info:
            line += "\n" + _traceback(self.formatException(record.exc_info))
        return line


def _shown(text: str) -> str:
    """Escape what JSON leaves and a terminal or a reader of lines would obey."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _traceback(text: str) -> str:
    """Return a traceback none of whose lines passes for one of the log: it may quote a client."""
    text = "\n".join(map(_shown, text.split("\n")))
    return _HEADING.sub("  ", text)
