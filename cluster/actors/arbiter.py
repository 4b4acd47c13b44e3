# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiter's arbiters: one actor on each node that has an instance which needs resources.

The first such instance of a node starts it. From then on the two speak over a socket of the node;
Ray only keeps the actor alive. One that was killed restarts under its name and learns from its
claims who holds what (`deployments.rate_limiter`). The controller ends all of them with the server.
"""

import asyncio
import concurrent.futures
import hashlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ray

from cluster.actors.calls import for_each_actor, kill_actor, start_on_node
from deployments.rate_limiter.arbiter import Limit, ResourceArbiter
from deployments.rate_limiter.roster import Roster
from deployments.rate_limiter.server import ArbiterServer
from deployments.reactor.reactor import Reactor

NAME_PREFIX: Final = "resource-arbiter@"
_RETRY_S: Final = 0.05

_log = logging.getLogger(__name__)


class ResourceArbiterActor:
    """The actor; made by `start_arbiter`.

    Args:
        path: Abstract name of its socket.
        limits: How many there are of each resource on the node.
        roster_path: Where it keeps who has joined.
    """

    def __init__(self, path: str, limits: Sequence[Limit], roster_path: Path) -> None:
        self._path = path
        self._limits = limits
        self._roster_path = roster_path
        self._unused_since_s: float | None = None
        self._serving: concurrent.futures.Future[ArbiterServer] = concurrent.futures.Future()
        threading.Thread(target=self._run, name="manta-arbiter", daemon=True).start()

    async def ready(self) -> None:
        """Return when claims can join."""
        await asyncio.wrap_future(self._serving)

    async def unused_s(self, is_leaving: bool) -> float:
        """Return for how many seconds no instance has been seen here; 0.0 while one is."""
        if not self._serving.done() or self._serving.result().member_count:
            self._unused_since_s = None
            return 0.0
        if self._unused_since_s is None:
            self._unused_since_s = time.monotonic()
        return time.monotonic() - self._unused_since_s

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException:
            # Ray then starts another one.
            _log.exception("the rate limiter ends")
            os._exit(1)

    def _serve(self) -> None:
        reactor = Reactor()
        arbiter = ResourceArbiter(self._limits, is_open=False)
        while not self._serving.done():
            try:
                server = ArbiterServer(reactor, self._path, arbiter, Roster(self._roster_path))
            except OSError as error:
                # The one before it is not quite dead.
                _log.warning("the rate limiter cannot listen yet: %s", error)
                time.sleep(_RETRY_S)
            else:
                self._serving.set_result(server)
        while True:
            reactor.turn()


def start_arbiter(limits: Sequence[Limit]) -> str:
    """Start the arbiter of this node unless there is one; not on an event loop.

    Returns:
        The abstract name of its socket.

    Raises:
        UnavailableError: It does not start.
    """
    node_id: str = ray.get_runtime_context().get_node_id()
    # Other limits are another arbiter's: its claims reload when the server's options change.
    digest = hashlib.sha256(repr(tuple(limits)).encode()).hexdigest()[:8]
    path = f"\0manta/arbiter/{node_id}/{digest}"
    roster_path = _session_folder() / f"manta-arbiter-{node_id}-{digest}"
    start_on_node(
        ResourceArbiterActor,
        f"{NAME_PREFIX}{node_id}/{digest}",
        node_id,
        f"the rate limiter of node {node_id}",
        path,
        tuple(limits),
        roster_path,
    )
    return path


def end_arbiters() -> None:
    """End the arbiters of all nodes; not on an event loop."""
    for_each_actor(NAME_PREFIX, kill_actor)


def _session_folder() -> Path:
    worker: Any = ray._private.worker  # noqa: SLF001 - nothing public tells the folder
    return Path(worker._global_node.get_session_dir_path())  # noqa: SLF001
