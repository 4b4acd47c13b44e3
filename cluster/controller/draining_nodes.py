# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Follows which nodes drain, and has them emptied; ends what nobody uses on nodes."""

import asyncio
import logging
from typing import Final

from cluster.controller.host import ControllerHost
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Of the half a minute that a pod has to end, if nobody has given it more.
_PERIOD_S: Final = 2.0
# Looks at nodes without instances while none drains.
_LOOKS_BETWEEN: Final = 5


async def watch_nodes(host: ControllerHost, lifecycle: ModelLifecycle) -> None:
    """Look again and again, for ever; while the head is away nothing is known and nothing moved."""
    known: frozenset[str] = frozenset()
    look = 0
    while True:
        await asyncio.sleep(_PERIOD_S)
        look += 1
        try:
            draining = await host.read_draining()
            if draining != known:
                _log.info("nodes that drain: %s", ", ".join(sorted(draining)) or "none")
                known = draining
            lifecycle.evacuation.look(draining)
            if draining or not look % _LOOKS_BETWEEN:
                await host.end_unused_actors(host.placer.nodes_in_use, draining)
        except Exception as error:
            # Ray's client raises what it likes.
            _log.debug("nodes that drain are not known: %s", error)
