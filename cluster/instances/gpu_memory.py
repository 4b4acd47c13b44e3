# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How much of a GPU's memory the instances of a model take, as measured. Pure.

A model is known by the digest of its files and options, so that what was measured of one is
forgotten with it: another model of the name is another model.
"""

from collections.abc import Callable, MutableMapping
from typing import Final

# A hundred bytes each.
MOST_MODELS: Final = 2000
# Allocators grow by less than this between readings without it meaning anything.
_SAME_BYTES: Final = 1 << 20


class GpuMemory:
    """By digest: bytes that an instance had after its load, and at most since.

    Args:
        rows: The same, two numbers each; kept by the caller.
        changed: Called after each change of ``rows``.
    """

    def __init__(
        self, rows: MutableMapping[str, list[int]], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._rows = rows
        self._changed = changed

    def peak_bytes(self, digest: str) -> int:
        """Return the most that an instance had; 0 when none was measured."""
        return max(self._rows.get(digest, [0]))

    def measured(self, digest: str, bytes_now: int) -> None:
        """Note what an instance has now; its first measurement is that after the load."""
        known = self._rows.get(digest)
        if known is not None and bytes_now <= known[1] + _SAME_BYTES:
            return
        self._rows[digest] = [bytes_now if known is None else known[0], bytes_now]
        while len(self._rows) > MOST_MODELS:
            del self._rows[next(iter(self._rows))]
        self._changed()
