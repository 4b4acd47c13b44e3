# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ends what instances have started on a node for all of them, once the node has no instance.

Any live actor keeps a node from being idle, for Ray's autoscaler, and from being empty, when it
drains. Each of these actors tells since when nobody has needed it: an instance that Ray has placed
by itself may just be loading there, of which the controller does not know yet.
"""

import contextlib
import logging
from collections.abc import Collection
from typing import Any, Final

import ray
from ray.exceptions import RayError

from cluster.actors import arbiter
from cluster.actors.calls import actor_names, kill_actor
from cluster.instances import node_files
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


def end_unused_actors(in_use: Collection[str], draining: Collection[str]) -> None:
    """End those that nobody needs; not on an event loop.

    Args:
        in_use: Ids of nodes that have instances, which keep theirs.
        draining: Ids of nodes that drain: nothing starts there, so nobody will need theirs.
    """
    for name in actor_names():
        node_id = node_of(name)
        if node_id is None or node_id in in_use:
            continue
        # It may have ended since; one that does not answer is asked again.
        with contextlib.suppress(RayError, ValueError, TimeoutError):
            _end_if_unused(name, is_leaving=node_id in draining)


def _end_if_unused(name: str, *, is_leaving: bool) -> None:
    handle: Any = ray.get_actor(name, namespace=NAMESPACE)
    unused_s: float = handle.unused_s.remote(is_leaving).future().result(_ASK_TIMEOUT_S)
    if unused_s > (0.0 if is_leaving else UNUSED_S):
        _log.info("%s ends: its node has no instance", name)
        kill_actor(handle)
