# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The one gate of tests that take too long for every change: ``MANTA_TESTS=all`` opens it.

`make test-all` does. Without it tests that take minutes are skipped, and others do less.
"""

import os
from collections.abc import Mapping
from typing import Final

import pytest

VARIABLE: Final = "MANTA_TESTS"


def is_all(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this run makes all tests, however long they take.

    Raises:
        ValueError: The variable has another value than ``all``.
    """
    value = environ.get(VARIABLE, "")
    if value not in {"", "all"}:
        raise ValueError(f"{VARIABLE} is 'all' or not set, not '{value}'")
    return value == "all"


def amount(usual: int, of_all: int, variable: str = "") -> int:
    """Return how many of something a test makes.

    Args:
        usual: In `make test`.
        of_all: In `make test-all`.
        variable: Of the environment, in which another number may be asked for.
    """
    return int(os.environ.get(variable) or (of_all if is_all() else usual))


REASON: Final = f"takes minutes: {VARIABLE}=all"
takes_minutes = pytest.mark.skipif(not is_all(), reason=REASON)
