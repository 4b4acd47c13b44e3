# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The directory an instance loads its model from, where that is not the repository's own.

Files of a repository in a store, and those that came with a load, one process of the node fetches
for all instances. The cache keeps them while a process uses them.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from backends.api.errors import InternalError, UnavailableError
from deployments.instance.spec import InstanceSpec
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.layout import cache_folder
from deployments.model_files.loaded import is_of_load

# Has the files of a spec in its node's cache; may block.
FetchToNode = Callable[[InstanceSpec], None]

# What another model needs may take their place before an instance has pinned them.
_FETCHES: Final = 3

# Keep the directories of this process's models until it ends.
_caches: Final[list[NodeCache]] = []


def with_local_files(spec: InstanceSpec, fetch_to_node: FetchToNode | None) -> InstanceSpec:
    """Return the spec with a model directory that is on this node.

    Args:
        spec: The recipe; returned as it is when its directory is the repository's own, or was
            made for the load and is here.
        fetch_to_node: Has files of a model on this node.

    Raises:
        UnavailableError: They are nowhere any more, or cannot be fetched.
        InvalidArgumentError: One leads out of its model's directory.
        ResourceExhaustedError: There is no room for them.
        InternalError: They cannot be written.
    """
    files = spec.files
    if files is None or fetch_to_node is None:
        return spec
    if is_of_load(files.location) and Path(spec.model_dir).is_dir():
        return spec
    return replace(spec, model_dir=str(_from_node(spec, files, fetch_to_node)))


def _from_node(spec: InstanceSpec, files: ModelFiles, fetch_to_node: FetchToNode) -> Path:
    """Return the node's directory of files, pinned by this process."""
    root = cache_folder(spec.model_cache_directory)
    try:
        cache = NodeCache(root, spec.model_cache_max_bytes)
        _caches.append(cache)
        # Who fetches files also sees to it that agents hear of the load.
        directory = None if files.agents else cache.find(files)
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
