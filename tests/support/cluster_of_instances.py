# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that are lane servers in this process, and the routing tables that name them."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self, cast

from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, tensor_from_numpy
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.instance.crash_page import CrashPage
from deployments.instance.work import ExecutedModel, UnaryWork
from deployments.lane.crash_report import NO_PLACE
from deployments.lane.server import LaneServer, ServerRequest
from deployments.lane.server_lane import LaneHandler
from deployments.reactor.reactor import Reactor
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support.lane_rig import SECRET, Handler, Turning

CONFIG = ModelConfig(
    name="m",
    input=(ModelInput("A", "INT32", (2,)),),
    output=(ModelOutput("B", "INT32", (2,)),),
)
_names = itertools.count()
_versions = itertools.count(1)


def request(**fields: object) -> InferenceRequest:
    import numpy as np

    tensor = tensor_from_numpy("A", np.zeros(2, np.int32))
    return InferenceRequest("m", inputs=[tensor], **fields)  # type: ignore[arg-type]


class Instance:
    """A lane server with a scripted handler.

    Args:
        answer: What the handler does with each request; None keeps them.
        log: Where Python's faulthandler would write; None: the instance has no page either.
    """

    def __init__(
        self, answer: Callable[[ServerRequest], None] | None = None, log: Path | None = None
    ) -> None:
        self.page = None if log is None else CrashPage(str(log))
        self.handler = Handler(answer)
        self.slabs = SlabPool(1 << 20)
        number = next(_names)
        self.incarnation = f"incarnation-{number}"
        self.uds = f"\0manta-router-{os.getpid()}-{number}"
        self.turning = Turning(Reactor())
        self.server = LaneServer(
            cast("LaneHandler", self.handler),
            reactor=self.turning.reactor,
            secret=SECRET,
            slabs=self.slabs,
            incarnation=self.incarnation,
            crash_place=NO_PLACE if self.page is None else self.page.place,
        )
        self.endpoint = InstanceEndpoint(
            f"m/1#{number}", self.incarnation, "node", self.uds, ("", 0)
        )

    async def start(self) -> Self:
        self.server.start(self.uds)
        await self.turning.__aenter__()
        return self

    def execute(self, *requests: ServerRequest) -> None:
        """Note what is executed from now on."""
        assert self.page is not None
        model = ExecutedModel(CONFIG, 1, None)
        self.page.note([UnaryWork(model, each, 0) for each in requests])

    async def stop(self) -> None:
        self.server.close()
        await self.turning.__aexit__()


def table(
    *instances: Instance,
    state: ModelReadyState = ModelReadyState.READY,
    initialised: bool = True,
    version: int = 0,
    config: ModelConfig = CONFIG,
    leaving: tuple[Instance, ...] = (),
    is_restarting: bool = False,
) -> RoutingTable:
    entry = ModelVersion(
        1,
        state,
        "",
        config,
        instances=tuple(each.endpoint for each in instances),
        leaving=tuple(each.endpoint for each in leaving),
        is_restarting=is_restarting,
    )
    return RoutingTable(version or next(_versions), {"m": Model("m", (entry,))}, initialised)


class Routed:
    """A router and its instances, all closed at the end."""

    def __init__(self, *instances: Instance, config: ModelConfig = CONFIG) -> None:
        self.instances = list(instances)
        self.config = config
        self.slabs = SlabPool(1 << 20)
        self.router = Router("node", SECRET, self.slabs)

    async def __aenter__(self) -> Self:
        for instance in self.instances:
            await instance.start()
        self.router.update(table(*self.instances, config=self.config))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.router.close()
        for instance in self.instances:
            await instance.stop()

    @property
    def model(self):  # type: ignore[no-untyped-def]
        served = self.router.models.get("m", 1)
        assert served is not None
        return served
