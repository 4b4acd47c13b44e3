# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The actor that fetches model files for the instances of a node, one on each node that needs it.

The first instance of a node whose model is in a store starts it. The controller ends all of them
with the server; what they have fetched stays in the nodes' caches.
"""

import contextlib
import logging
import threading
import time
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.config.pbtxt import to_json
from cluster.actors.calls import actor_names, cause_of, kill_actor
from deployments.instance.spec import NAMESPACE, InstanceSpec
from deployments.model_files.contracts import ModelFiles

_NAME_PREFIX: Final = "model-files@"
# Downloads wait for each other, and for the store, on threads.
_THREADS: Final = 64
_START_TIMEOUT_S: Final = 60.0
_RETRY_S: Final = 0.05


class NodeFilesActor:
    """The actor; made by `fetch_to_node`.

    Args:
        directory: Folder of the cache.
        max_bytes: What it may hold.
        secret: Key of the handshake between nodes.
        log_level: Level of its log.
    """

    def __init__(self, directory: str, max_bytes: int, secret: bytes, log_level: str) -> None:
        # Every instance imports this module; only this actor needs what reads stores.
        from cluster.actors.file_registry import FileRegistry, GcsRows  # noqa: PLC0415
        from cluster.repository.stores.source import open_source  # noqa: PLC0415
        from deployments.instance.node_files import NodeFiles  # noqa: PLC0415

        logging.basicConfig(level=log_level)
        host = ray.util.get_node_ip_address()
        registry = FileRegistry(GcsRows())
        node_id: str = ray.get_runtime_context().get_node_id()
        self._files = NodeFiles(directory, max_bytes, secret, host, registry, open_source, node_id)
        # An actor that was started anew has another address, and a cache that others may ask.
        threading.Thread(target=self._files.announce, name="manta-announce", daemon=True).start()

    def ready(self) -> None:
        """Return when it can be asked."""

    def ensure(self, model_name: str, files: ModelFiles, config_json: str) -> None:
        """Fetch files, and have the model's agents run over them; see `NodeFiles.ensure`."""
        from cluster.repository.agents.run import make_tree  # noqa: PLC0415

        make = partial(make_tree, model_name, files.agents, config_json)
        self._files.ensure(model_name, files, make)

    def statistics(self) -> dict[str, float]:
        """Return the counters of `CacheStatistics`, by name."""
        return asdict(self._files.statistics())


def fetch_to_node(spec: InstanceSpec) -> None:
    """Have the files of a spec on this node; not on an event loop.

    Raises:
        TritonError: They cannot be fetched, or one of the model's agents refuses; the message says
            why.
    """
    assert spec.files is not None  # noqa: S101 - the caller has looked
    config_json = to_json(spec.config).decode() if spec.files.agents else "{}"
    node_id: str = ray.get_runtime_context().get_node_id()
    handle = _start(spec, node_id)
    try:
        # Not ray.get, which warns wherever it is called in an actor that has an event loop.
        handle.ensure.remote(spec.model_name, spec.files, config_json).future().result()
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TritonError):
            raise cause from None
        raise InternalError(f"{type(cause).__name__}: {cause}") from error
    except RayError as error:
        raise UnavailableError(
            f"the process that fetches files of models to node {node_id} ended while it did so for "
            f"model '{spec.model_name}': {cause_of(error)}"
        ) from error


def _start(spec: InstanceSpec, node_id: str) -> Any:
    options: Any = ray.remote(NodeFilesActor).options(
        name=f"{_NAME_PREFIX}{node_id}",
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_concurrency=_THREADS,
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        enable_task_events=False,
    )
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            handle = options.remote(
                spec.model_cache_directory, spec.model_cache_max_bytes, spec.secret, spec.log_level
            )
            handle.ready.remote().future().result(_START_TIMEOUT_S)
        except (RayError, ValueError, TimeoutError) as error:
            # One of an ending server may still hold the name.
            if time.monotonic() >= deadline_s:
                raise UnavailableError(
                    f"the process that fetches files of models to node {node_id} does not start: "
                    f"{cause_of(error)}"
                ) from error
            time.sleep(_RETRY_S)
        else:
            return handle


def end_node_files() -> None:
    """End these actors on all nodes; not on an event loop."""
    for name in actor_names():
        if name.startswith(_NAME_PREFIX):
            # It may have ended since.
            with contextlib.suppress(RayError, ValueError):
                kill_actor(ray.get_actor(name, namespace=NAMESPACE))
