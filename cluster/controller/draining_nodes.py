# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Follows the nodes: has those emptied that drain, asks for more, ends what nobody uses.

Each in a loop of its own: a node that drains has half a minute, whatever becomes of the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cluster.controller.consolidating import Consolidation
from cluster.controller.host import ControllerHost
from cluster.controller.node_demand import NodeDemand
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import ingress_label_selector

_log = logging.getLogger(__name__)

# Of the half a minute that a pod has to end, if nobody has given it more.
_PERIOD_S: Final = 2.0
# Of looks at what is not urgent.
_LONG_PERIOD_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """One of the looks.

    Attributes:
        what: What it is at, for the log.
        once: Looks once.
        period_s: The time between two.
    """

    what: str
    once: Callable[[], Awaitable[None]]
    period_s: float = _PERIOD_S

    async def for_ever(self) -> None:
        """Look again and again; while the head is away nothing is known and nothing done."""
        said = ""
        while True:
            await asyncio.sleep(self.period_s)
            try:
                await self.once()
                said = ""
            except Exception as error:
                # Ray's client raises what it likes.
                if said != str(error):
                    said = str(error)
                    _log.warning("the look at %s fails: %s", self.what, said)


class NodeWatch:
    """The looks at the nodes.

    Args:
        host: The cluster.
        lifecycle: The models.
        options: What of all this is wanted.
        is_joined: Whether the cluster may have an autoscaler; a Ray of the server's own has none.
    """

    def __init__(
        self,
        host: ControllerHost,
        lifecycle: ModelLifecycle,
        options: ServerOptions,
        *,
        is_joined: bool,
    ) -> None:
        self._host = host
        self._lifecycle = lifecycle
        self._options = options
        self._is_joined = is_joined
        self._draining: frozenset[str] = frozenset()
        self._ended_s = 0.0

    def looks(self) -> Iterator[Look]:
        """Return what is looked at."""
        host, options = self._host, self._options
        yield Look("nodes that drain", self._look_for_drains)
        yield Look("what nobody uses on nodes", self._end_unused)
        if self._is_joined:
            yield Look("nodes that are asked for", NodeDemand(host).look)
        if options.consolidate_nodes:
            labels, after_s = ingress_label_selector(options), options.consolidate_after_secs
            consolidation = Consolidation(host, self._lifecycle, labels, after_s)
            yield Look("under-used nodes", consolidation.look, _LONG_PERIOD_S)

    async def _look_for_drains(self) -> None:
        draining = await self._host.read_draining()
        if draining != self._draining:
            _log.info("nodes that drain: %s", ", ".join(sorted(draining)) or "none")
            self._draining = draining
        self._lifecycle.evacuation.look(draining)

    async def _end_unused(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._draining or now_s >= self._ended_s + _LONG_PERIOD_S:
            self._ended_s = now_s
            await self._host.end_unused_actors(self._host.placer.nodes_in_use, self._draining)
