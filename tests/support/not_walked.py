# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A dict that is looked into and never walked, for tests of what an event costs."""

from typing import Any, NoReturn


class NotWalked(dict[Any, Any]):
    """Things each of which can be found, and none of which is visited."""

    def _walk(self) -> NoReturn:
        raise AssertionError("all are walked")

    __iter__ = _walk
    items = _walk
    keys = _walk
    values = _walk
