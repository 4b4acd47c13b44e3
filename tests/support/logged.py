# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The log's lines of a block, also in tests whose loop hides pytest's own fixture."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def logged_by(name: str, level: int = logging.WARNING) -> Iterator[list[str]]:
    """Collect what a logger, and those below it, log from a level on."""
    texts: list[str] = []
    handler = logging.Handler(level)
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
