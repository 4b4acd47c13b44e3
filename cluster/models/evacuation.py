# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has instances started elsewhere that are on nodes which drain, before those go.

A node drains when it was told to, by `ray drain-node`, by an autoscaler or because its pod is
deleted. Ray starts nothing there any more. For each version with instances there as many are
started elsewhere; when they are ready, routers are told and those on the node finish their requests
and end, one for one. While there is no room elsewhere, those on the node go on serving. A move that
waits for room gives way to what may make some, a resize or a rest, and is tried again later.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_identifier import shown
from cluster.models.in_service import move
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind, Meeting, Work
from cluster.models.records import Records

_log = logging.getLogger(__name__)

# Between two attempts at moving a version whose instances do not load elsewhere, or whose move has
# given way.
_RETRY_S: Final = 10.0

_Key = tuple[str, int]


@dataclass(slots=True, eq=False)
class Evacuation:
    """Empties nodes.

    Attributes:
        followed: Has the end of the lifecycle wait for a task.
    """

    records: Records
    model_of: Callable[[str], OperatedModel]
    followed: Callable[[Work], Work]
    # The nodes that a version is being moved off.
    _moving: dict[_Key, frozenset[str]] = field(default_factory=dict)
    _not_before_s: dict[_Key, float] = field(default_factory=dict)

    def look(self, draining: Collection[str]) -> None:
        """Begin to move what is on nodes that drain; what is being moved already goes on.

        A model on which another operation is under way has its turn when this is called again.
        """
        now_s = asyncio.get_running_loop().time()
        for name, record in list(self.records.by_name.items()) if draining else ():
            for number, version in record.versions.items():
                key = (name, number)
                nodes = frozenset(e.node_id for e in version.instances if e.node_id in draining)
                is_due = now_s >= self._not_before_s.get(key, now_s)
                if is_due and not nodes <= self._moving.get(key, frozenset()):
                    self._begin(key, nodes)

    def _begin(self, key: _Key, nodes: frozenset[str]) -> None:
        if Meeting.REFUSE not in self.model_of(key[0]).meetings(Kind.MOVE, key[1]):
            self._moving[key] = nodes
            self.followed(asyncio.create_task(self._move(key, nodes)))

    async def _move(self, key: _Key, nodes: frozenset[str]) -> None:
        name, version = key
        model = self.model_of(name)
        try:
            operation = await model.run(
                Kind.MOVE,
                version,
                f"move of '{name}'",
                lambda operation: move(
                    model.versions, version, lambda pool: pool.on_nodes(nodes), operation.block
                ),
            )
            if operation is None:
                return
            await operation.wait_ended()
            operation.result()
        except TritonError as error:
            self._put_off(key)
            _log.error("'%s' version %d is not moved: %s", shown(name), version, error.message)
        else:
            if operation.was_cancelled:
                self._put_off(key)
                return
            self._not_before_s.pop(key, None)
            _log.info("'%s' version %d has left the nodes that drain", shown(name), version)
        finally:
            # A move off more nodes may have taken its place.
            if self._moving.get(key) is nodes:
                del self._moving[key]

    def _put_off(self, key: _Key) -> None:
        self._not_before_s[key] = asyncio.get_running_loop().time() + _RETRY_S
