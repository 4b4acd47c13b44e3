# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has instances make room for one of a higher priority.

They leave as those do that are one too many: routers hear of it first, then they finish what they
have, and end. Each is followed in its pool by one that waits for room, so that the version comes
back to its number when there is.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any

from backends.api.model_identifier import shown
from cluster.models.contracts import VersionPool
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind, Meeting

_log = logging.getLogger(__name__)


class Displacement:
    """Displaces instances.

    Args:
        model_of: Returns what is kept of a model.
        spawn: Runs in the background, under a name, what nobody waits for.
        routers_know: Returns when routers have heard of the records as they are.
        drain_s: How long requests in flight may take.

    Attributes:
        drain_s: The same.
    """

    def __init__(
        self,
        model_of: Callable[[str], OperatedModel],
        spawn: Callable[[str, Coroutine[Any, Any, None]], object],
        routers_know: Callable[[], Awaitable[None]],
        drain_s: float,
    ) -> None:
        self._model_of = model_of
        self._spawn = spawn
        self._routers_know = routers_know
        self.drain_s = drain_s

    def is_possible(self, name: str, version: int) -> bool:
        """Whether no operation on a version is under way that may not be cancelled for it."""
        return Meeting.REFUSE not in self._model_of(name).meetings(Kind.DISPLACE, version)

    def displace(
        self, name: str, version: int, instances: Collection[str], by: str
    ) -> Mapping[str, str]:
        """Let instances of a version go.

        Args:
            name: The model's key.
            version: Version number.
            instances: Their actor names.
            by: Actor name of the one that needs the room.

        Returns:
            By the name of an instance that goes: that of the one that follows it. Empty while
            another operation on the version is under way, which may be cancelled for the next try.
        """
        model = self._model_of(name)
        pool = model.versions.pool_of(version)
        if pool is None or not model.may(Kind.DISPLACE, version):
            return {}
        followers = pool.displace(instances)
        for each in followers:
            _log.info("'%s' version %d: %s makes room for %s", shown(name), version, each, by)
        self._spawn(f"drain of '{name}'", self._shrink(pool))
        return followers

    async def _shrink(self, pool: VersionPool) -> None:
        await self._routers_know()
        await pool.let_go(self.drain_s)
