# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of the server's own code: errors that no request may cause, met by one all the same.

Whoever takes a request on owes it an outcome, also where a fault meets it in a task, a thread or a
loop over requests that nobody waits for. A fault is logged with its traceback and tells its client
INTERNAL.
"""

import logging
from typing import Protocol

from backends.api.errors import InternalError, TritonError

_log = logging.getLogger(__name__)


class Ended(Protocol):
    """What of a sink is needed to end its request."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take the error that ends the request."""


def fault_of(error: Exception, what: str) -> TritonError:
    """Return the error that tells a client of another one; a `TritonError` is its own.

    Args:
        error: What was raised. What is no `TritonError` is logged.
        what: What failed, for example "a request of model 'm'".
    """
    if isinstance(error, TritonError):
        return error
    _log.error("%s failed", what, exc_info=error)
    return InternalError(
        f"{what} failed: {type(error).__name__}: {error}; the server's log says where"
    )


def end_with_fault(sink: Ended, error: Exception, what: str) -> None:
    """End a request with whatever was raised; a sink that raises in turn is logged.

    Args:
        sink: Takes the outcome.
        error: As `fault_of`.
        what: As `fault_of`.
    """
    try:
        sink.fail(fault_of(error, what))
    except Exception:
        _log.exception("%s was ended, and its sink failed", what)
