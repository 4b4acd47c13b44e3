# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller itself does in a cluster of any size; see `tests.support.scale_of_control`.

It is the server's own, over a folder of models and a cluster in memory, with eight loaded instances
for each node.
"""

import asyncio
import itertools
import logging
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

from cluster.controller.controller import ModelController
from tests.support import large_cluster as made
from tests.support.controller_fakes import FakeHost, controller_of, write_model
from tests.support.large_cluster import Event, Loop, Prepare, Size

_LOADED_PER_NODE: Final = 8
# Of loads; more would only wait for each other.
_AT_ONCE: Final = 200


async def _started(size: Size, folder: Path, **options: Any) -> ModelController:
    """Start a controller, whose reconciler makes no passes, and load models."""
    for model in range(size.models):
        write_model(folder, made.model_name(model))
    host = FakeHost()
    host.node_names = tuple(made.node_id(node) for node in range(size.nodes))
    controller = await controller_of(folder, host, **options)
    await controller.start()
    controller._reconciling.cancel()
    names = [made.model_name(model) for model in range(_LOADED_PER_NODE * size.nodes)]
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        await asyncio.gather(*(controller.load(name, {}) for name in some))
    return controller


def _controller(size: Size, loop: Loop, **options: Any) -> ModelController:
    folder = Path(tempfile.mkdtemp())
    weakref.finalize(loop, shutil.rmtree, folder)
    level = logging.root.manager.disable
    logging.disable(logging.INFO)
    controller = loop.run_until_complete(_started(size, folder, **options))
    logging.disable(level)
    return controller


def reconcile(size: Size, loop: Loop) -> Event:
    """All policies of the reconciler look, and find nothing to do."""
    controller = _controller(
        size,
        loop,
        model_control_mode="ondemand",
        consolidate_nodes=True,
        ingress_label_selector='{"ingress": "true"}',
    )
    reconciler = controller._reconciler

    async def look() -> None:
        turns = list(reconciler._turns.values())
        for each in turns:
            each.due_s = 0.0
        await reconciler._pass()
        await asyncio.gather(*(each.work for each in turns if each.work is not None))

    # The first pass does what is to be done.
    loop.run_until_complete(look())
    return lambda: loop.run_until_complete(look())


def load(size: Size, loop: Loop) -> Event:
    """A client has one more model loaded."""
    controller = _controller(size, loop, model_control_mode="explicit")
    models = itertools.count(size.models - 1, -1)

    def event() -> None:
        logging.disable(logging.INFO)
        loop.run_until_complete(controller.load(made.model_name(next(models)), {}))
        logging.disable(logging.NOTSET)

    return event


EVENTS: Final[tuple[Prepare, ...]] = (reconcile, load)
