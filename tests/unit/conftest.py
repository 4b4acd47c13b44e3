# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Unit tests that are slow for what they share."""

from typing import Final

import pytest

# Fixtures of a module or package that take a second or more. Whichever test asks first pays, so
# each test that asks is slow: a mark on some of them would leave the price to the next.
SLOW_FIXTURES: Final = frozenset({"backend_directory", "programs"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow each test that asks for a slow fixture, and have files of slow tests come first.

    Of two processes that take file after file one would otherwise end alone with such a file.
    """
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if any(item.iter_markers("slow"))}
    items.sort(key=lambda item: item.path not in slow)
