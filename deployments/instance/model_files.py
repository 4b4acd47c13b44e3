# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load, on the nodes where the controller did not write them.

The controller puts them into the cluster's store under a key; an instance that does not find its
model's directory fetches them into a folder of its node. A folder is kept while a process holds it,
by a shared lock on the folder itself, and removed by the next that comes to the node with other
files. All of that happens under one lock of the node.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from backends.api.errors import InternalError, UnavailableError
from deployments.instance.spec import InstanceSpec

# Returns what is kept under a key; None when there is nothing. May block.
FetchFiles = Callable[[str], bytes | None]

_LOCK: Final = "lock"
_PARTIAL: Final = ".partial"
# Descriptors of the folders this process uses; open until it ends.
_held: list[int] = []


def pack(folder: Path, limit_bytes: int) -> bytes | None:
    """Return all files of a folder as one value; None when they are larger than the limit."""
    files, left_bytes = {}, limit_bytes
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            left_bytes -= path.stat().st_size
            if left_bytes < 0:
                return None
            files[str(path.relative_to(folder))] = path.read_bytes()
    return msgspec.msgpack.encode(files)


def node_folder() -> Path:
    """Return where this user's processes on this node keep such files."""
    return Path(tempfile.gettempdir()) / f"manta-model-files-{os.getuid()}"


def with_local_files(
    spec: InstanceSpec, fetch: FetchFiles | None, root: Path | None = None
) -> InstanceSpec:
    """Return the spec with a model directory that is on this node.

    Args:
        spec: The recipe; returned as it is unless its files came with a load and are elsewhere.
        fetch: Gets them.
        root: Where to put them; None for `node_folder`.

    Raises:
        UnavailableError: They are nowhere any more.
        InternalError: They cannot be written.
    """
    if not spec.files_key or fetch is None or Path(spec.model_dir).is_dir():
        return spec
    root = root or node_folder()
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if root.stat().st_uid != os.getuid():
            raise PermissionError(f"{root} belongs to another user")
        with _locked(root):
            folder = root / spec.files_key
            _remove_unused(root, folder)
            if not folder.is_dir():
                _write(folder, _fetched(spec, fetch))
            descriptor = os.open(folder, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            _held.append(descriptor)
    except OSError as error:
        raise InternalError(
            f"the files model '{spec.model_name}' was loaded with cannot be written to '{root}': "
            f"{error}"
        ) from error
    return replace(spec, model_dir=str(folder))


def _fetched(spec: InstanceSpec, fetch: FetchFiles) -> bytes:
    content = fetch(spec.files_key)
    if content is None:
        raise UnavailableError(
            f"the files model '{spec.model_name}' was loaded with are no longer in the cluster's "
            "store; load the model with its files again"
        )
    return content


def _write(folder: Path, content: bytes) -> None:
    partial = folder.with_name(folder.name + _PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for name, data in msgspec.msgpack.decode(content, type=dict[str, bytes]).items():
        path = (partial / name).resolve()
        if not path.is_relative_to(partial.resolve()):
            raise PermissionError(f"'{name}' leads out of the model's directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    partial.rename(folder)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_unused(root: Path, wanted: Path) -> None:
    for folder in root.iterdir():
        if folder == wanted or not folder.is_dir():
            continue
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
