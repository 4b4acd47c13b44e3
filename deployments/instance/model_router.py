# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router of a model that calls models, with what keeps its table; made at the first call."""

import os
from functools import partial
from typing import TYPE_CHECKING

from deployments.contracts.control import ControllerLink
from deployments.response_cache.factory import make_store
from deployments.routing.links import Heartbeat
from deployments.routing.router import Router
from deployments.routing.table_watch import TableWatch
from deployments.routing.wakes import Wakes
from deployments.supervision.supervisor import Supervisor
from deployments.tracing.call import Recorder

if TYPE_CHECKING:
    from deployments.instance.model_calls import CallingProcess


class ModelRouter:
    """A router inside an instance's process; made and used on the process's event loop.

    Attributes:
        router: The router.
        watch: Has it follow the controller's table.
        recorder: Notes calls of requests that are traced.
        tasks: Calls that wait for models to be loaded.
    """

    def __init__(self, link: ControllerLink, process: "CallingProcess") -> None:
        lanes, cache = process.lanes, process.cache
        timeout_s = lanes.heartbeat_timeout_s
        router = self.router = Router(
            process.node_id,
            process.secret,
            process.slabs,
            lanes,
            None if cache is None else make_store(*cache, os.environ),
            opens_on_demand=True,
            own_incarnation=process.incarnation,
            heartbeat=Heartbeat(timeout_s, link.report_wedged) if timeout_s else None,
        )
        # Who calls is in use, and cannot rest for what it waits for.
        router.wake_with(Wakes(partial(link.wake, is_nested=True)))
        router.join_node()
        self.watch = TableWatch("calls of the model", link, router.update, router)
        self.recorder = Recorder()
        self.tasks = Supervisor("calls of the model")

    async def close(self) -> None:
        """Stop following the table and close all lanes; calls on them fail."""
        await self.watch.close()
        await self.tasks.close()
        await self.router.close()
