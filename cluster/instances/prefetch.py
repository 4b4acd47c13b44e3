# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks the processes that fetch files of models for some before any instance does."""

import contextlib
from collections.abc import Collection
from typing import Any

import ray
from ray.exceptions import RayError

from backends.api.errors import UnavailableError
from cluster.actors.calls import call, cause_of
from cluster.instances.node_files import NAME_PREFIX, NodeFilesSettings, start_node_files
from cluster.threads import GCS, NODES
from deployments.instance.spec import NAMESPACE
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.prefetch import CacheView, Prefetched


async def prefetch_to_node(
    settings: NodeFilesSettings, node_id: str, model_name: str, files: ModelFiles, fraction: float
) -> Prefetched:
    """Have a node fetch files that nobody needs yet; see `NodeFiles.prefetch`.

    Raises:
        TritonError: They cannot be fetched; the message says why.
    """
    handle = await NODES.run(start_node_files, settings, node_id)
    try:
        # One that another release has started may not know the call.
        found: Prefetched = await call(handle.prefetch.remote(model_name, files, fraction))
    except (RayError, AttributeError) as error:
        raise UnavailableError(
            f"the process that fetches files of models to node {node_id} does not fetch those of "
            f"model '{model_name}': {cause_of(error)}"
        ) from error
    return found


async def view_of_cache(node_id: str, keys: Collection[str], fraction: float) -> CacheView | None:
    """Return what a node's cache has; None when no process there can tell, for none is started."""
    handle = await GCS.run(_find, node_id)
    if handle is None:
        return None
    try:
        view: CacheView = await call(handle.view.remote(tuple(keys), fraction))
    except (RayError, AttributeError):
        return None
    return view


def stop_prefetch(node_ids: Collection[str]) -> None:
    """Have nodes stop what they prefetch; waits for none of them, and not on an event loop."""
    for handle in map(_find, node_ids):
        if handle is not None:
            with contextlib.suppress(RayError, AttributeError):
                handle.stop_prefetch.remote()


def _find(node_id: str) -> Any:
    try:
        return ray.get_actor(f"{NAME_PREFIX}{node_id}", namespace=NAMESPACE)
    except (RayError, ValueError):
        return None
