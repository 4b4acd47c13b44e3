# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The router of a model that calls models, with what keeps its table; made at the first call."""

import os
from collections.abc import Mapping
from functools import partial

from deployments.contracts.control import ControllerLink
from deployments.response_cache.factory import make_store
from deployments.routing.links import Heartbeat
from deployments.routing.membership import NodeMember
from deployments.routing.router import Router
from deployments.routing.table_watch import TableWatch
from deployments.routing.wakes import Wakes
from deployments.settings.lane_settings import LaneSettings
from deployments.slabs.pool import SlabPool
from deployments.supervision.supervisor import Supervisor
from deployments.tracing.call import Recorder


class ModelRouter:
    """A router inside an instance's process; made and used on the process's event loop.

    What it is made of is described at `deployments.instance.model_calls.RouterCaller`.

    Attributes:
        router: The router.
        watch: Has it follow the controller's table.
        recorder: Notes calls of requests that are traced.
        tasks: Calls that wait for models to be loaded.
    """

    def __init__(
        self,
        link: ControllerLink,
        *,
        node_id: str,
        incarnation: str,
        secret: bytes,
        slabs: SlabPool,
        cache: tuple[str, Mapping[str, str]] | None,
        lanes: LaneSettings,
    ) -> None:
        timeout_s = lanes.heartbeat_timeout_s
        router = self.router = Router(
            node_id,
            secret,
            slabs,
            lanes,
            None if cache is None else make_store(*cache, os.environ),
            opens_on_demand=True,
            own_incarnation=incarnation,
            heartbeat=Heartbeat(timeout_s, link.report_wedged) if timeout_s else None,
        )
        # Who calls is in use, and cannot rest for what it waits for.
        router.wake_with(Wakes(partial(link.wake, is_nested=True)))
        router.join_node(NodeMember(node_id, secret, may_hold=False, lanes=lanes))
        self.watch = TableWatch("calls of the model", link, router.update, router)
        self.recorder = Recorder()
        self.tasks = Supervisor("calls of the model")

    async def close(self) -> None:
        """Stop following the table and close all lanes; calls on them fail."""
        await self.watch.close()
        await self.tasks.close()
        await self.router.close()
