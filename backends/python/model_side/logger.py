# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.Logger: the server's log, for models.

Triton: python_backend/src/pb_stub_log.cc
"""

import logging
from typing import Any, ClassVar

from backends.python.model_side.calls import log_fields
from backends.python.model_side.failure import NumberedEnum

_logger = logging.getLogger("manta.python_backend.model")

# Past the method of this class, so that the record names the model's file and line.
_STACK_LEVEL = 2


class LogLevel(NumberedEnum):
    """Log levels, with Triton's numbers."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


# The class below has an attribute of the same name, as in Triton.
_Level = LogLevel

_LEVEL: dict[LogLevel, int] = {
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.VERBOSE: logging.DEBUG,
}


class Logger:
    """Writes to the server's log."""

    LogLevel: ClassVar[Any] = LogLevel
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    VERBOSE = LogLevel.VERBOSE

    @staticmethod
    def log(message: str, level: _Level = LogLevel.INFO) -> None:
        """Log at a level."""
        _logger.log(_LEVEL[level], "%s", message, stacklevel=_STACK_LEVEL, extra=log_fields())

    @staticmethod
    def log_info(message: str) -> None:
        """Log at level INFO."""
        _logger.info("%s", message, stacklevel=_STACK_LEVEL, extra=log_fields())

    @staticmethod
    def log_warn(message: str) -> None:
        """Log at level WARNING."""
        _logger.warning("%s", message, stacklevel=_STACK_LEVEL, extra=log_fields())

    @staticmethod
    def log_error(message: str) -> None:
        """Log at level ERROR."""
        _logger.error("%s", message, stacklevel=_STACK_LEVEL, extra=log_fields())

    @staticmethod
    def log_verbose(message: str) -> None:
        """Log at level VERBOSE."""
        _logger.debug("%s", message, stacklevel=_STACK_LEVEL, extra=log_fields())
