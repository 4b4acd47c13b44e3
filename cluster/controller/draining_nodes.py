# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Follows the nodes: has those emptied that drain, asks for more, ends what nobody uses."""

import asyncio
import logging
from typing import Final

from cluster.controller.consolidating import Consolidation
from cluster.controller.host import ControllerHost
from cluster.controller.node_demand import NodeDemand
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.nodes import NodeOptions, ingress_label_selector

_log = logging.getLogger(__name__)

# Of the half a minute that a pod has to end, if nobody has given it more.
_PERIOD_S: Final = 2.0
# Looks at what is not urgent.
_LOOKS_BETWEEN: Final = 5


async def watch_nodes(
    host: ControllerHost, lifecycle: ModelLifecycle, options: NodeOptions, *, is_joined: bool
) -> None:
    """Look again and again, for ever; while the head is away nothing is known and nothing moved.

    Args:
        host: The cluster.
        lifecycle: The models.
        options: What of all this is wanted.
        is_joined: Whether the cluster may have an autoscaler; a Ray of the server's own has none.
    """
    demand = NodeDemand(host) if is_joined else None
    consolidation = None
    if options.consolidate_nodes:
        labels, after_s = ingress_label_selector(options), options.consolidate_after_secs
        consolidation = Consolidation(host, lifecycle, labels, after_s)
    known: frozenset[str] = frozenset()
    look = 0
    while True:
        await asyncio.sleep(_PERIOD_S)
        look += 1
        try:
            draining = await host.read_draining()
        except Exception as error:
            # Ray's client raises what it likes.
            _log.debug("nodes that drain are not known: %s", error)
            continue
        if draining != known:
            _log.info("nodes that drain: %s", ", ".join(sorted(draining)) or "none")
            known = draining
        lifecycle.evacuation.look(draining)
        is_due = not look % _LOOKS_BETWEEN
        try:
            if draining or is_due:
                await host.end_unused_actors(host.placer.nodes_in_use, draining)
            if consolidation is not None and is_due:
                await consolidation.look()
            if demand is not None:
                await demand.look()
        except Exception as error:
            _log.warning("nodes are neither emptied nor asked for: %s", error)
