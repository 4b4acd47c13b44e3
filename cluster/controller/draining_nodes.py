# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Follows which nodes drain, and has them emptied."""

import asyncio
import logging
from typing import Final

from cluster.controller.host import ControllerHost
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Of the half a minute that a pod has to end, if nobody has given it more.
_PERIOD_S: Final = 2.0


async def watch_nodes(host: ControllerHost, lifecycle: ModelLifecycle) -> None:
    """Look again and again, for ever; while the head is away nothing is known and nothing moved."""
    known: frozenset[str] = frozenset()
    while True:
        await asyncio.sleep(_PERIOD_S)
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
