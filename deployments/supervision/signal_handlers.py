# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Exceptions of a model's handlers of signals, raised in whatever the main thread does.

A model's alarm may go off when its request is answered. Where our code waits then, it goes on
waiting.
"""

import logging

_log = logging.getLogger(__name__)


def is_of_handler(error: Exception, waiting: str) -> bool:
    """Tell whether a handler of a signal raised an exception, and log it.

    Args:
        error: The exception.
        waiting: How the path of the module ends that waited: what it raises itself is its own.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename.endswith(waiting):
        return False
    _log.error("a handler of a signal failed while nothing was executed", exc_info=error)
    return True
