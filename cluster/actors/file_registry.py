# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes have which contents of models: rows in the cluster's key-value store.

A row for each node that has a content or gets it, one for the node that asks the store, with the
time of its last progress, and one for the content's digest. Two nodes that take over a stale claim
at once both ask the store, which costs bytes and nothing else.
"""

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from deployments.model_files.registry import STALE_AFTER_S

STORE_NAMESPACE: Final = b"manta"
_PREFIX: Final = b"model-files/"
# A row of progress for each part would be a call of the GCS for each 4 MiB.
_PROGRESS_INTERVAL_S: Final = 5.0


class Rows(Protocol):
    """A key-value store that several nodes use; calls block."""

    def get(self, key: bytes) -> bytes | None:
        """Return a row; None when there is none."""

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """Write a row, and say whether there was one; without ``overwrite`` that one stays."""

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys that begin so."""

    def delete(self, key: bytes) -> None:
        """Remove a row; no error when there is none."""


class GcsRows:
    """Implements `Rows` on Ray's global control store."""

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        value: Any = _internal_kv_get(key, namespace=STORE_NAMESPACE)
        return None if value is None else bytes(value)

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        """See `Rows.put`."""
        return bool(_internal_kv_put(key, value, overwrite=overwrite, namespace=STORE_NAMESPACE))

    def keys(self, prefix: bytes) -> list[bytes]:
        """See `Rows.keys`."""
        return list(_internal_kv_list(prefix, namespace=STORE_NAMESPACE))

    def delete(self, key: bytes) -> None:
        """See `Rows.delete`."""
        _internal_kv_del(key, namespace=STORE_NAMESPACE)


class FileRegistry:
    """Implements `deployments.model_files.registry.Registry` on rows.

    Args:
        rows: Where they are.
        clock: Returns seconds that mean the same on all nodes.
        stale_after_s: How long a claim lasts without progress.
    """

    def __init__(
        self,
        rows: Rows,
        clock: Callable[[], float] = time.time,
        stale_after_s: float = STALE_AFTER_S,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._stale_after_s = stale_after_s
        # By content: when this process last noted its progress.
        self._noted_s: dict[str, float] = {}

    def claim(self, key: str, node: str) -> bool:
        """See `Registry.claim`."""
        self._rows.put(_holder(key, node), b"")
        if self.told(key) and set(self.holders(key)) != {node}:
            return False
        row = f"{self._clock()}@{node}".encode()
        if not self._rows.put(_claim(key), row, overwrite=False):
            return True
        claimant, progressed_s = self._claimant(key)
        is_stale = self._clock() - progressed_s >= self._stale_after_s
        # Who has left has no claim either; nobody removes it, which another's new one may replace.
        if claimant != node and (is_stale or claimant not in self.holders(key)):
            self._rows.put(_claim(key), row)
            return True
        return claimant == node

    def progressed(self, key: str, node: str) -> None:
        """See `Registry.progressed`."""
        now_s = self._clock()
        if now_s - self._noted_s.get(key, 0.0) < _PROGRESS_INTERVAL_S:
            return
        if self._claimant(key)[0] == node:
            self._noted_s[key] = now_s
            self._rows.put(_claim(key), f"{now_s}@{node}".encode())

    def holders(self, key: str) -> tuple[str, ...]:
        """See `Registry.holders`."""
        prefix = _holder(key, "")
        return tuple(sorted(row.removeprefix(prefix).decode() for row in self._rows.keys(prefix)))

    def tell(self, key: str, node: str, sha256: str) -> None:
        """See `Registry.tell`."""
        if self._claimant(key)[0] == node:
            self._rows.put(_digest(key), sha256.encode())

    def told(self, key: str) -> str:
        """See `Registry.told`."""
        return (self._rows.get(_digest(key)) or b"").decode()

    def leave(self, key: str, node: str) -> None:
        """See `Registry.leave`."""
        self._noted_s.pop(key, None)
        self._rows.delete(_holder(key, node))
        if not self.holders(key):
            self._rows.delete(_claim(key))
            self._rows.delete(_digest(key))

    def _claimant(self, key: str) -> tuple[str, float]:
        time_s, _, node = (self._rows.get(_claim(key)) or b"0@").decode().partition("@")
        return node, float(time_s)


def _holder(key: str, node: str) -> bytes:
    return _PREFIX + f"{key}/holder/{node}".encode()


def _claim(key: str) -> bytes:
    return _PREFIX + f"{key}/claim".encode()


def _digest(key: str) -> bytes:
    return _PREFIX + f"{key}/sha256".encode()
