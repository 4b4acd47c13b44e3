# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes have which contents of models: rows in the cluster's key-value store.

A row for each node that has a content or gets it, one for the content's digest, and one for each
claim, with the node that asks the store and the time of its last progress. The claim with the
highest number holds. Who takes over writes the next one, which the store lets only one node do, so
that of several that find a claim stale at once one asks the store. Claims leave with the last node.

Rows of a node that ended are removed when somebody asks for the content and finds nobody, and all
of them when the next node starts.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from deployments.model_files.registry import STALE_AFTER_S

STORE_NAMESPACE: Final = b"manta"
_PREFIX: Final = b"model-files/"
_HOLDER: Final = "/holder/"
# A row of progress for each part would be a call of the GCS for each 4 MiB.
_PROGRESS_INTERVAL_S: Final = 5.0


class Rows:
    """Rows of Ray's global control store, which all nodes use; calls block."""

    def get(self, key: bytes) -> bytes | None:
        """Return a row; None when there is none."""
        value: Any = _internal_kv_get(key, namespace=STORE_NAMESPACE)
        return None if value is None else bytes(value)

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Write a row, and say whether there was one; without ``overwrite`` that one stays."""
        return bool(_internal_kv_put(key, value, overwrite=overwrite, namespace=STORE_NAMESPACE))

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys that begin so."""
        return list(_internal_kv_list(prefix, namespace=STORE_NAMESPACE))

    def delete(self, key: bytes) -> None:
        """Remove a row; no error when there is none."""
        _internal_kv_del(key, namespace=STORE_NAMESPACE)


@dataclass(slots=True, eq=False)
class FileRegistry:
    """Implements `deployments.model_files.registry.Registry` on rows.

    Attributes:
        rows: Where they are.
        clock: Returns seconds that mean the same on all nodes.
        stale_after_s: How long a claim lasts without progress.
    """

    rows: Rows
    clock: Callable[[], float] = time.time
    stale_after_s: float = STALE_AFTER_S
    # By content: when this process last noted its progress.
    _noted_s: dict[str, float] = field(default_factory=dict)

    def claim(self, key: str, node: str) -> bool:
        """See `Registry.claim`."""
        self.rows.put(_holder(key, node), b"")
        if self.told(key) and set(self.holders(key)) != {node}:
            return False
        number, claimant, progressed_s = self._claimed(key)
        if claimant == node:
            return True
        is_stale = self.clock() - progressed_s >= self.stale_after_s
        # Who has left has no claim either, though nobody removes it.
        if not is_stale and claimant in self.holders(key):
            return False
        row = f"{self.clock()}@{node}".encode()
        return not self.rows.put(_claim(key, number + 1), row, overwrite=False)

    def progressed(self, key: str, node: str) -> None:
        """See `Registry.progressed`."""
        now_s = self.clock()
        if now_s - self._noted_s.get(key, 0.0) < _PROGRESS_INTERVAL_S:
            return
        number, claimant, _ = self._claimed(key)
        if claimant == node:
            self._noted_s[key] = now_s
            self.rows.put(_claim(key, number), f"{now_s}@{node}".encode())

    def holders(self, key: str) -> tuple[str, ...]:
        """See `Registry.holders`."""
        prefix = _holder(key, "")
        return tuple(sorted(row.removeprefix(prefix).decode() for row in self.rows.keys(prefix)))

    def tell(self, key: str, node: str, sha256: str) -> None:
        """See `Registry.tell`."""
        if self._claimed(key)[1] == node:
            self.rows.put(_digest(key), sha256.encode())

    def announce(self, key: str, node: str, sha256: str) -> None:
        """See `Registry.announce`."""
        self.rows.put(_digest(key), sha256.encode(), overwrite=False)
        self.rows.put(_holder(key, node), b"")

    def told(self, key: str) -> str:
        """See `Registry.told`."""
        return (self.rows.get(_digest(key)) or b"").decode()

    def leave(self, key: str, node: str) -> None:
        """See `Registry.leave`."""
        self._noted_s.pop(key, None)
        self.rows.delete(_holder(key, node))
        if not self.holders(key):
            for claim in self.rows.keys(_claims(key)):
                self.rows.delete(claim)
            self.rows.delete(_digest(key))

    def contents(self) -> dict[str, list[str]]:
        """Return the contents of each node; walks all rows."""
        found = defaultdict(list)
        for row in self.rows.keys(_PREFIX):
            key, holder, node = row.removeprefix(_PREFIX).decode().rpartition(_HOLDER)
            if holder:
                found[node].append(key)
        return found

    def _claimed(self, key: str) -> tuple[int, str, float]:
        """Return the claim that holds: its number, whose it is, and when that made progress."""
        claims = self.rows.keys(_claims(key))
        number = max((int(row.removeprefix(_claims(key))) for row in claims), default=0)
        row = self.rows.get(_claim(key, number)) if number else None
        time_s, _, node = (row or b"0@").decode().partition("@")
        return number, node, float(time_s)


def _holder(key: str, node: str) -> bytes:
    return _PREFIX + f"{key}{_HOLDER}{node}".encode()


def _claims(key: str) -> bytes:
    return _PREFIX + f"{key}/claim/".encode()


def _claim(key: str, number: int) -> bytes:
    return _claims(key) + str(number).encode()


def _digest(key: str) -> bytes:
    return _PREFIX + f"{key}/sha256".encode()
