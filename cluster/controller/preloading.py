# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has the fork server import a framework once a model needs it, for later instances."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.registry import backend_name
from cluster.fork_server.asking import ask_to_import
from cluster.threads import FILES
from deployments.instance.spec import InstanceDescription

# By backend; what takes long to import. OpenVINO and TensorFlow run threads once they are imported,
# so that each process has to do it; ONNX Runtime is there from the beginning.
FRAMEWORKS: Final[Mapping[str, Sequence[str]]] = {
    "fil": ("treelite", "backends.fil.backend"),
    "pytorch": ("torch", "backends.pytorch.backend"),
}


@dataclass(slots=True, eq=False)
class Preloading:
    """What the controller does about it.

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
