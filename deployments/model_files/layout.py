# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where everything of a node's cache lies below its folder.

::

    lock                 held while anything below changes its name; for short times
    boot                 the machine's start that wrote all of this
    blobs/SHA256         a file's content, whole and read-only
    unchecked/SHA256     the same, written before the machine's last start
    index/KEY            SHA-256 of the content that a store has under a name and stamp
    partial/KEY[.parts]  a download, and which of its parts are there
    making/KEY/          a model's directory before it is whole
    trees/KEY/           a model's directory: hard links of blobs; locked, shared, by who uses it
    locks/               downloads and trees under way: one file each, locked by who works on it
    trash/               what is about to be removed
    statistics/NODE/     what the process has done that fetches files of a node, which locks it

What is written is not forced to the disk, which would take as long again. After a loss of power a
file may have its name and lack its content. So what was written before the machine's last start is
read, and compared with its SHA-256, before it is used again.
"""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deployments.model_files.locks import is_locked, locked

_FOLDERS: Final = ("blobs", "unchecked", "index", "partial", "making", "trees", "locks", "trash")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a cache.

    Attributes:
        root: The cache's folder.
    """

    root: Path

    @property
    def lock(self) -> Path:
        """Lock of the node."""
        return self.root / "lock"

    @property
    def blobs(self) -> Path:
        """Contents that are whole."""
        return self.root / "blobs"

    @property
    def unchecked(self) -> Path:
        """Contents that have to be read before they are used."""
        return self.root / "unchecked"

    @property
    def index(self) -> Path:
        """What is known of stores' files."""
        return self.root / "index"

    @property
    def partial(self) -> Path:
        """Downloads."""
        return self.root / "partial"

    @property
    def making(self) -> Path:
        """Directories that are not whole."""
        return self.root / "making"

    @property
    def trees(self) -> Path:
        """Directories of models."""
        return self.root / "trees"

    @property
    def trash(self) -> Path:
        """What is about to be removed."""
        return self.root / "trash"

    def tree_lock(self, key: str) -> Path:
        """Return the lock of who makes a tree."""
        return self.root / "locks" / f"tree-{key}"

    def blob_lock(self, key: str) -> Path:
        """Return the lock of who downloads a file."""
        return self.root / "locks" / f"blob-{key}"

    def discard(self, path: Path) -> None:
        """Remove a directory so that nobody sees a part of it."""
        trash = self.trash / secrets.token_hex(8)
        path.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def cache_folder(directory: str) -> Path:
    """Return the folder of a node's cache.

    Args:
        directory: ``--model-cache-directory``; empty for one of this user's.
    """
    if directory:
        return Path(directory)
    return Path(tempfile.gettempdir()) / f"manta-model-cache-{os.getuid()}"


def open_layout(root: Path, boot_id: str | None = None) -> Layout:
    """Make a cache's folders where they are not, and doubt what another start has written.

    Args:
        root: The cache's folder, on a disk of the node's own.
        boot_id: Which start of the machine this is; None to ask the system.

    Raises:
        OSError: They cannot be made, or belong to another user.
    """
    layout = Layout(root)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} belongs to another user")
    for name in _FOLDERS:
        (root / name).mkdir(exist_ok=True)
    boot_id = _boot_id() if boot_id is None else boot_id
    with locked(layout.lock):
        boot = root / "boot"
        if not boot.exists() or boot.read_text() != boot_id:
            _doubt_everything(layout)
            replace_text(boot, boot_id)
    return layout


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that readers see the former or this one."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    partial.write_text(text)
    partial.rename(path)


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _doubt_everything(layout: Layout) -> None:
    for blob in list(layout.blobs.iterdir()):
        blob.rename(layout.unchecked / blob.name)
    for tree in [*layout.trees.iterdir(), *layout.making.iterdir()]:
        if not is_locked(tree):
            layout.discard(tree)
    for left in [*layout.partial.iterdir(), *layout.index.glob("*.*")]:
        left.unlink()
