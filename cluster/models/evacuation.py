# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has instances started elsewhere that are on nodes which drain, before those go.

A node drains when it was told to, by `ray drain-node`, by an autoscaler or because its pod is
deleted. Ray starts nothing there any more. For each version with instances there as many are
started elsewhere; when they are ready, routers are told and those on the node finish their requests
and end. While there is no room elsewhere, those on the node go on serving.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_identifier import shown
from cluster.models import operation
from cluster.models.operated_model import OperatedModel
from cluster.models.records import Records

_log = logging.getLogger(__name__)

# Between two attempts at moving a version whose instances do not load elsewhere.
_RETRY_S: Final = 10.0

_Key = tuple[str, int]


class Evacuation:
    """Empties nodes.

    Args:
        records: The records of all models.
        model_of: Returns what is kept of a model.
        followed: Has the end of the lifecycle wait for a task.
    """

    def __init__(
        self,
        records: Records,
        model_of: Callable[[str], OperatedModel],
        followed: Callable[[operation.Work], operation.Work],
    ) -> None:
        self._records = records
        self._model_of = model_of
        self._followed = followed
        self._moving: dict[_Key, asyncio.Task[None]] = {}
        self._not_before_s: dict[_Key, float] = {}

    def look(self, draining: Collection[str]) -> None:
        """Begin to move what is on nodes that drain; what is being moved already goes on.

        A model on which another operation is under way has its turn when this is called again.

        Args:
            draining: Ids of the nodes.
        """
        now_s = asyncio.get_running_loop().time()
        for name, record in list(self._records.by_name.items()) if draining else ():
            for number, version in record.versions.items():
                key = (name, number)
                is_there = any(each.node_id in draining for each in version.instances)
                is_due = key not in self._moving and now_s >= self._not_before_s.get(key, now_s)
                if is_there and is_due:
                    self._begin(key, frozenset(draining))

    def _begin(self, key: _Key, draining: Collection[str]) -> None:
        task = self._moving[key] = self._followed(asyncio.create_task(self._move(key, draining)))
        task.add_done_callback(lambda _: self._moving.pop(key, None))

    async def _move(self, key: _Key, draining: Collection[str]) -> None:
        name, version = key
        model = self._model_of(name)
        if model.lock.locked() or operation.is_running(model.work):
            return
        async with model.lock:
            moving = _moved(model, version, draining)
            work = await model.run(f"move of '{name}'", moving, self._followed)
        await asyncio.wait({work})
        if work.cancelled():
            return
        try:
            work.result()
        except TritonError as error:
            self._not_before_s[key] = asyncio.get_running_loop().time() + _RETRY_S
            _log.error("'%s' version %d is not moved: %s", shown(name), version, error.message)
        else:
            self._not_before_s.pop(key, None)
            _log.info("'%s' version %d has left the nodes that drain", shown(name), version)


async def _moved(model: OperatedModel, version: int, draining: Collection[str]) -> None:
    # A poll that finds the same files lets it go on.
    model.loading = model.versions.candidate
    try:
        await model.versions.move(version, lambda pool: pool.on_nodes(draining))
    finally:
        model.loading = None
