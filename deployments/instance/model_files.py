# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The directory an instance loads its model from, where that is not the repository's own.

Files that came with a load the controller puts into the cluster's store under a key; an instance
that does not find its model's directory gets them through its node's cache. Files of a repository
in a store the node fetches, in one process for all instances. Either way the cache keeps them while
a process uses them.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from backends.api.errors import InternalError, UnavailableError
from deployments.instance.spec import InstanceSpec
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFile, ModelFiles
from deployments.model_files.layout import cache_folder

# Returns what is kept under a key; None when there is nothing. May block.
FetchFiles = Callable[[str], bytes | None]

# Has the files of a spec in its node's cache; may block.
FetchToNode = Callable[[InstanceSpec], None]

# What another model needs may take their place before an instance has pinned them.
_FETCHES: Final = 3

# Keep the directories of this process's models until it ends.
_caches: Final[list[NodeCache]] = []


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


def with_local_files(
    spec: InstanceSpec,
    fetch: FetchFiles | None,
    fetch_to_node: FetchToNode | None = None,
) -> InstanceSpec:
    """Return the spec with a model directory that is on this node.

    Args:
        spec: The recipe; returned as it is when its directory is the repository's own, or was
            made for the load and is here.
        fetch: Gets files that came with a load.
        fetch_to_node: Has files of a model in a store on this node.

    Raises:
        UnavailableError: They are nowhere any more, or cannot be fetched.
        InvalidArgumentError: One leads out of its model's directory.
        ResourceExhaustedError: There is no room for them.
        InternalError: They cannot be written.
    """
    if spec.files is not None and fetch_to_node is not None:
        return replace(spec, model_dir=str(_from_node(spec, spec.files, fetch_to_node)))
    if not spec.files_key or fetch is None or Path(spec.model_dir).is_dir():
        return spec
    root = cache_folder(spec.model_cache_directory)
    try:
        cache = NodeCache(root, spec.model_cache_max_bytes)
        _caches.append(cache)
        # What a load brought is known by its key alone until it is fetched.
        loaded = ModelFiles(f"load:{spec.files_key}", ())
        directory = cache.find(loaded) or _cached(cache, loaded, spec, fetch)
    except OSError as error:
        raise InternalError(
            f"the files model '{spec.model_name}' was loaded with cannot be written to '{root}': "
            f"{error}"
        ) from error
    return replace(spec, model_dir=str(directory))


def _from_node(spec: InstanceSpec, files: ModelFiles, fetch_to_node: FetchToNode) -> Path:
    """Return the node's directory of files, pinned by this process."""
    root = cache_folder(spec.model_cache_directory)
    try:
        cache = NodeCache(root, spec.model_cache_max_bytes)
        _caches.append(cache)
        directory = cache.find(files)
        for _ in range(_FETCHES):
            if directory is None:
                fetch_to_node(spec)
                directory = cache.find(files)
    except OSError as error:
        raise InternalError(
            f"the files of model '{spec.model_name}' cannot be used from '{root}': {error}"
        ) from error
    if directory is not None:
        return directory
    raise UnavailableError(
        f"the files of model '{spec.model_name}' leave the cache at '{root}' before they are used: "
        "it is too small for what is loaded; give more to --model-cache-max-bytes"
    )


class _PackedFiles:
    """Implements `FileSource` over the files of a load."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        return self._contents[file.path][offset_bytes : offset_bytes + length_bytes]


def _cached(cache: NodeCache, loaded: ModelFiles, spec: InstanceSpec, fetch: FetchFiles) -> Path:
    def make(directory: Path) -> None:
        contents = _fetched(spec, fetch)
        files = tuple(
            ModelFile(path, len(content), digest, digest)
            for path, content in sorted(contents.items())
            for digest in (sha256(content).hexdigest(),)
        )
        kept = cache.ensure(ModelFiles(loaded.location, files), lambda _: _PackedFiles(contents))
        shutil.copytree(kept, directory, copy_function=os.link, dirs_exist_ok=True)
        cache.release(kept)

    # Links take no room.
    return cache.derive(loaded.key(), make, 0)


def _fetched(spec: InstanceSpec, fetch: FetchFiles) -> dict[str, bytes]:
    content = fetch(spec.files_key)
    if content is None:
        raise UnavailableError(
            f"the files model '{spec.model_name}' was loaded with are no longer in the cluster's "
            "store; load the model with its files again"
        )
    return msgspec.msgpack.decode(content, type=dict[str, bytes])
