# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Local stand-ins for models in stores: all names, small texts as they are, other files empty.

What looks at a model before a node has its files looks at names, requirements and code of Python.
"""

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import uuid4
from weakref import finalize

from backends.api.errors import InternalError
from cluster.repository.stores.contracts import Store, StoredFile

_TEXTS: Final = frozenset({".py", ".txt", ".pbtxt", ".json", ".yaml", ".yml", ".labels", ".sig"})
_MAX_TEXT_BYTES: Final = 1 << 20
# Of one model together; beyond it texts are empty, too.
_MAX_TEXTS_BYTES: Final = 16 << 20
# Of those nobody holds.
_MAX_IDLE: Final = 64


class Skeletons:
    """The stand-ins of this process; they go with it. Used from several threads.

    Args:
        root: Where they are made; None for a temporary directory.
    """

    def __init__(self, root: str | None = None) -> None:
        self._root = root
        self._lock = Lock()
        self._held: dict[str, int] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()

    def make(
        self, location: str, digest: bytes, files: Mapping[str, StoredFile], store: Store
    ) -> str:
        """Return the stand-in of a model, which is made where it is not there.

        Args:
            location: The model's.
            digest: Of all its files.
            files: Them, by path in the model's directory.
            store: Where they are read.

        Raises:
            FileChangedError: A file is not the one that was listed.
            InternalError: It cannot be written.
        """
        name = blake2b(location.encode() + digest, digest_size=16).hexdigest()
        # The last part of it is the model's name, as of any model's directory.
        path = Path(self._directory(), name, location.rpartition("/")[2])
        if not path.is_dir():
            self._write(path, files, store)
        with self._lock:
            if str(path) not in self._held:
                self._idle[str(path)] = None
                self._idle.move_to_end(str(path))
            self._trim()
        return str(path)

    def hold(self, path: str) -> None:
        """Keep a stand-in until `release` is called as often."""
        with self._lock:
            self._idle.pop(path, None)
            self._held[path] = self._held.get(path, 0) + 1

    def release(self, path: str) -> None:
        """Remove a stand-in that nobody holds any more; another path is left alone."""
        with self._lock:
            if path not in self._held:
                return
            self._held[path] -= 1
            if not self._held[path]:
                del self._held[path]
                _remove(path)

    def _trim(self) -> None:
        while len(self._idle) > _MAX_IDLE:
            _remove(self._idle.popitem(last=False)[0])

    def _directory(self) -> str:
        with self._lock:
            if self._root is None:
                self._root = tempfile.mkdtemp(prefix="manta-skeletons-")
                finalize(self, shutil.rmtree, self._root, ignore_errors=True)
            return self._root

    def _write(self, path: Path, files: Mapping[str, StoredFile], store: Store) -> None:
        made = path.parent.with_suffix(f".{uuid4().hex}")
        left_bytes = _MAX_TEXTS_BYTES
        try:
            (made / path.name).mkdir(parents=True)
            for name, file in files.items():
                target = made / path.name / name
                if name.endswith("/"):
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                is_text = target.suffix in _TEXTS and file.size_bytes <= _MAX_TEXT_BYTES
                is_text = is_text and file.size_bytes <= left_bytes
                left_bytes -= file.size_bytes if is_text else 0
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(store.read(file.path, stamp=file.stamp) if is_text else b"")
                _date(target, file)
            # Another thread may have made the same.
            if not path.parent.is_dir():
                made.rename(path.parent)
        except (OSError, ValueError) as error:
            if path.is_dir():
                return
            raise InternalError(f"failed to write {path}: {error}") from None
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _date(path: Path, file: StoredFile) -> None:
    """Give a file a time that changes with what the store says of it."""
    told = blake2b(f"{file.stamp}:{file.size_bytes}".encode(), digest_size=7).digest()
    time_ns = int.from_bytes(told, "big")
    os.utime(path, ns=(time_ns, time_ns))


def _remove(path: str) -> None:
    shutil.rmtree(Path(path).parent, ignore_errors=True)
