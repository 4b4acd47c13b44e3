# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has processes ready for the next instances: idle workers on nodes, and what those import."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.registry import backend_name
from cluster.controller.host import Nodes
from cluster.fork_server.requests import ask_to_import
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.residency.prestart import KEPT_S, IdleWorkers
from cluster.threads import FILES
from deployments.instance.spec import InstanceDescription

# Looks at whether nodes have come, or versions have become dormant.
_LOOKS_BETWEEN: Final = 5
# By backend; what takes long to import. OpenVINO and TensorFlow run threads once they are imported,
# so that each process has to do it; ONNX Runtime is there from the beginning.
FRAMEWORKS: Final[Mapping[str, Sequence[str]]] = {
    "fil": ("treelite", "backends.fil.backend"),
    "pytorch": ("torch", "backends.pytorch.backend"),
}


@dataclass(slots=True, eq=False)
class Prestarting:
    """Keeps idle workers on nodes for the next instances, while versions are dormant.

    Workers are asked for when nothing is being woken: their processes would take the CPUs from the
    instances that requests wait for.

    Attributes:
        placer: Tells of instances that have taken a worker.
        count: How many workers each node shall have; 0 for none.
    """

    nodes: Nodes
    placer: Placer
    lifecycle: ModelLifecycle
    count: int
    _workers: IdleWorkers = field(init=False)
    _was_taken: bool = False
    _look_count: int = 0

    def __post_init__(self) -> None:
        self._workers = IdleWorkers(self.count)
        self.placer.on_loaded.append(self._loaded)

    async def look(self) -> None:
        """Ask for workers where some lack, unless something is being woken."""
        self._look_count += 1
        if not self._was_taken and self._look_count % _LOOKS_BETWEEN:
            return
        if self.lifecycle.dormancy.waking_count or not self._is_wanted():
            return
        self._was_taken = False
        cluster = await self.nodes.read_cluster()
        now_s = asyncio.get_running_loop().time()
        counts = self._workers.missing(cluster.nodes, self.placer.kept_free, now_s)
        if counts:
            self._workers.asked(await self.nodes.prestart(counts, KEPT_S), now_s)

    def _loaded(self, description: InstanceDescription) -> None:
        # With an environment of its own it had a process of its own.
        if not description.spec.runtime_env:
            self._workers.taken(description.endpoint.node_id)
            self._was_taken = True

    def _is_wanted(self) -> bool:
        return self.count > 0 and any(
            (record.is_on_demand and not record.ready_versions)
            or any(version.is_dormant for version in record.versions.values())
            for record in self.lifecycle.records.values()
        )


@dataclass(slots=True, eq=False)
class Preloading:
    """Has the fork server import a framework once a model needs it, for later instances.

    Attributes:
        ask: Asks the fork server of this node, blocking.
    """

    ask: Callable[[Sequence[str]], bool] = ask_to_import
    _asked: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Future[bool]] = field(default_factory=set)

    def loaded(self, description: InstanceDescription) -> None:
        """Note an instance that has loaded its model."""
        spec = description.spec
        # With an environment of its own it has a framework of its own.
        if spec.runtime_env or spec.requirements:
            return
        backend = backend_name(spec.config.backend, spec.config.platform)
        if backend in FRAMEWORKS and backend not in self._asked:
            self._asked.add(backend)
            task = FILES.run(self.ask, FRAMEWORKS[backend])
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
