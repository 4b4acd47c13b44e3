# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what instances have started on a node for all of them, once the node has no instance.

Any live actor keeps a node from being idle, for Ray's autoscaler, and from being empty, when it
drains. Each of these actors tells since when nobody has needed it: an instance that Ray has placed
by itself may just be loading there, of which the controller does not know yet.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Any, Final

import ray
from ray.exceptions import RayError

from backends.api.errors import TritonError
from cluster.actors import arbiter
from cluster.actors.calls import actor_names, call, kill_actor
from cluster.instances import node_files
from cluster.threads import GCS
from deployments.instance.spec import NAMESPACE

_log = logging.getLogger(__name__)

# What was fetched for an instance is held for as long, until the instance holds it itself.
UNUSED_S: Final = 60.0
_PREFIXES: Final = (arbiter.NAME_PREFIX, node_files.NAME_PREFIX)
_ASK_TIMEOUT_S: Final = 5.0


def node_of(name: str) -> str | None:
    """Return the node of such an actor by the actor's name; None for other actors."""
    prefix = next((each for each in _PREFIXES if name.startswith(each)), None)
    return None if prefix is None else name.removeprefix(prefix).partition("/")[0]


async def end_unused_actors(in_use: Collection[str], draining: Collection[str]) -> None:
    """End those that nobody needs.

    All are asked at once and have the same few seconds; one that says nothing is asked again by
    the next call.

    Args:
        in_use: Ids of nodes that have instances, which keep theirs.
        draining: Ids of nodes that drain: nothing starts there, so nobody will need theirs.
    """
    nodes = {name: node_of(name) for name in await GCS.run(actor_names)}
    asked = (
        _end_if_unused(name, is_leaving=node_id in draining)
        for name, node_id in nodes.items()
        if node_id is not None and node_id not in in_use
    )
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ASK_TIMEOUT_S):
            await asyncio.gather(*asked)


async def _end_if_unused(name: str, *, is_leaving: bool) -> None:
    # It may have ended since.
    with contextlib.suppress(RayError, ValueError, TritonError):
        handle: Any = await GCS.run(ray.get_actor, name, namespace=NAMESPACE)
        unused_s: float = await call(handle.unused_s.remote(is_leaving))
        if unused_s > (0.0 if is_leaving else UNUSED_S):
            _log.info("%s ends: its node has no instance", name)
            await GCS.run(kill_actor, handle)
