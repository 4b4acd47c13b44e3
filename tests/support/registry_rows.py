# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of a registry of contents, as Ray's control store keeps them, for tests without Ray."""

from threading import Lock


class DictRows:
    """Implements `cluster.actors.file_registry.Rows` in a dict."""

    def __init__(self) -> None:
        self.writes = 0
        self._lock = Lock()
        self._rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def put(self, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        with self._lock:
            was_there = key in self._rows
            if overwrite or not was_there:
                self.writes += 1
                self._rows[key] = value
            return was_there

    def keys(self, prefix: bytes = b"") -> list[bytes]:
        with self._lock:
            return [key for key in self._rows if key.startswith(prefix)]

    def delete(self, key: bytes) -> None:
        with self._lock:
            self._rows.pop(key, None)
