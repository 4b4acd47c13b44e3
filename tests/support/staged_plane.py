# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A data plane with everything on that surrounds a request, and what each of it has counted."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from backends.api.errors import TritonError
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.access.contracts import Role
from deployments.admission.rules import AdmissionDefaults
from deployments.captures.capturing import Captures
from deployments.captures.provenance import VERSION
from deployments.captures.records import CaptureRecord
from deployments.captures.rules import read_rules
from deployments.contracts.routing_table import Model, ModelReadyState, ModelVersion, RoutingTable
from deployments.contracts.sinks import Inflight
from deployments.data_plane.data_plane import DataPlane
from deployments.data_plane.policy_tenants import PolicyTenants
from deployments.data_plane.view import CallerPlane
from deployments.lane.server import ServerRequest
from deployments.rollouts.encoding import encode_traffic
from deployments.rollouts.spec import Arm, Traffic
from deployments.settings.server_settings import (
    ServerSettings,
    SettingsChange,
    TraceSettings,
    changed,
)
from deployments.tracing.tracer import GRPC, Arrival, Trace, Tracer
from tests.support.cluster_of_instances import CONFIG, Instance, Routed, request
from tests.support.key_guard import EVERYTHING, rights_of
from tests.support.lane_rig import Sink, until
from tests.support.memory_plane import Repository

# In the order in which they meet a request.
FEATURES = (
    "tracing",
    "access",
    "tenants",
    "rollouts",
    "provenance",
    "captures",
    "admission",
    "regions",
)
MAX_REQUESTS = 4
_TRACED = TraceSettings(("TIMESTAMPS",), rate=1, file="t.json")


class Control(Repository):
    """A controller that keeps settings."""

    def __init__(self, plane: "StagedPlane") -> None:
        super().__init__()
        self.settings = ServerSettings()
        self._plane = plane

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        self.settings = changed(self.settings, change)
        self._plane.publish()
        return self.settings


class Writer:
    def __init__(self) -> None:
        self.traces: list[Trace] = []

    def write(self, trace: Trace) -> None:
        self.traces.append(trace)

    def settle(self, sampler: Any) -> None:
        """Nothing is collected."""

    async def close(self) -> None:
        """Nothing is open."""


class Records:
    def __init__(self) -> None:
        self.ended: list[CaptureRecord] = []
        self.begun = 0

    def offer(self, record: CaptureRecord) -> bool:
        self.ended.append(record)
        return True

    def new_id(self) -> str:
        self.begun += 1
        return str(self.begun)


class StagedPlane:
    """Model ``m`` with versions 1 and 2, of which a rollout gives all requests to the second.

    Args:
        routed: A router without a table.
        features: Which of `FEATURES` are on.
    """

    def __init__(self, routed: Routed, features: Iterable[str]) -> None:
        self.features = frozenset(features)
        self.router = routed.router
        self.instances: dict[int, Instance] = {}
        self.is_serving = True
        self._table_version = 1 << 40
        self.writer, self.records = Writer(), Records()
        self.noted: list[tuple[str, ...]] = []
        if "admission" in self.features:
            self.router.admit_with(AdmissionDefaults(is_on=True, max_requests=MAX_REQUESTS))
        self.tracer = Tracer(None, lambda _: self.writer)
        trace = _TRACED if "tracing" in self.features else TraceSettings()
        self.tracer.apply(ServerSettings(trace=trace, trace_at_start=trace))
        self.control = Control(self)
        self.plane = DataPlane(
            "manta",
            self.router,
            routed.slabs,
            cast("Any", self.control),
            allow_client_memory=True,
            tracer=self.tracer,
        )
        if "provenance" in self.features:
            self.plane.stages.always_names_origin = True
        if "captures" in self.features:
            rules = read_rules({"store": "x", "captures": [{"models": ["m"]}]})
            self.plane.stages.captures = Captures(
                rules, self.records, lambda: 0.0, lambda: 0, self.records.new_id
            )
        rows = {"blue": {"requests_per_s": MAX_REQUESTS, "burst": MAX_REQUESTS}}
        self.tenants = PolicyTenants(lambda: rows, lambda: 1, lambda: 0.0)
        self.key = f"manta-stages-{os.getpid()}"

    def caller(self, *, without: Role | None = None) -> CallerPlane | DataPlane:
        """Return the plane of a caller, who may do all but one thing."""
        if not self.features & {"access", "tenants"}:
            return self.plane
        grants = [grant for grant in EVERYTHING if grant[0] is not without]
        tenants = self.tenants if "tenants" in self.features else None
        rights = rights_of(*grants, tenant="blue")
        return CallerPlane(self.plane, rights, tenants, note=self._note, now_s=lambda: 0.0)

    def _note(self, *line: str) -> None:
        self.noted.append(line)

    def publish(self) -> None:
        self._table_version += 1
        state = ModelReadyState.READY if self.is_serving else ModelReadyState.UNAVAILABLE
        versions = tuple(
            ModelVersion(version, state, config=CONFIG, instances=(instance.endpoint,))
            for version, instance in self.instances.items()
        )
        traffic = b""
        if "rollouts" in self.features:
            traffic = encode_traffic(Traffic(1, "salt", (Arm("one", 1, 0), Arm("two", 2, 10_000))))
        models = {"m": Model("m", versions, traffic=traffic)}
        settings = self.control.settings
        self.router.update(
            RoutingTable(self._table_version, models, initialised=True, settings=settings)
        )

    def request(self, *, region: str = "", **fields: Any) -> InferenceRequest:
        """Return a request, whose input lies in a region if one is named."""
        if not region:
            return request(**fields)
        tensor = Tensor("A", "INT32", (2,), EMPTY, Extent(region, 0, 8))
        return InferenceRequest("m", inputs=[tensor], regions={}, **fields)

    def send(self, plane: Any, model: Any, asked: InferenceRequest, sink: Sink) -> Inflight:
        """Send a request as a port does."""
        arrival = Arrival(GRPC, 1, 2, ()) if self.tracer.is_on else None
        inflight: Inflight = plane.infer(model, asked, sink, (), arrival=arrival)
        return inflight

    def asked(self) -> list[ServerRequest]:
        return self.instances[2].handler.requests

    async def arrived(self) -> ServerRequest:
        """Return the request once the instance has it."""
        await until(self.asked)
        return self.asked()[0]

    def fill(self, what: str) -> None:
        """Leave no place to the next request."""
        for _ in range(MAX_REQUESTS):
            if what == "tenants":
                self.tenants.admit("blue", "m", 0, 0.0)()
            else:
                places = self.router.models.admissions.places
                assert places is not None
                places.count += 1

    def seen(self, asked: InferenceRequest, sink: Sink) -> dict[str, str]:
        """Return what each feature has seen of the one request.

        ``begun`` stays open: nothing has told the feature that the request has ended.
        """
        found = {
            "tracing": _state(asked.trace is not None, len(self.writer.traces)),
            "access": "begun" if self.noted == [("infer", "m", "allowed")] else "-",
            "tenants": self._tenants(),
            "rollouts": self._rollouts(asked),
            "provenance": f"{sum(map(_is_named, sink.responses))} named",
            "captures": self._captures(),
            "admission": self._admission(),
            "regions": "even" if self.plane.settings.uses.leave("r") is False else "begun",
        }
        return {name: found[name] for name in FEATURES if name in self.features}

    def _tenants(self) -> str:
        counts = self.tenants.desk.counts["blue"]
        if counts.refused:
            return "refused"
        return _state(bool(counts.admitted), counts.admitted - counts.ongoing)

    def _rollouts(self, asked: InferenceRequest) -> str:
        rollout = self.router.models.rollouts.get("m")
        counts = None if rollout is None else rollout.counts(2)
        if counts is not None and counts.requests:
            return f"ended {counts.requests}, failed {counts.errors}"
        return "begun" if asked.model_version == 2 else "-"

    def _captures(self) -> str:
        if not self.records.ended:
            return "begun" if self.records.begun else "-"
        return ", ".join(f"{each.outcome} {len(each.responses)}" for each in self.records.ended)

    def _admission(self) -> str:
        found = self.router.models.get("m", 2)
        gate = None if found is None else found.admission
        if gate is None:
            return "-"
        return "refused" if gate.refusals.counts else "begun" if gate.outstanding else "even"


def _state(has_begun: bool, ended: int) -> str:
    return "-" if not has_begun else f"ended {ended}" if ended else "begun"


def _is_named(response: InferenceResponse | None) -> bool:
    return response is not None and response.parameters.get(VERSION) == "2"


def refuse(here: StagedPlane, by: str) -> tuple[Any, InferenceRequest]:
    """Return a plane and a request that a feature, or the check of requests, will refuse."""
    if by in {"tenants", "admission"}:
        here.fill(by)
    if by == "access":
        return here.caller(without=Role.SHARED_MEMORY), here.request(region="r")
    if by == "regions":
        return here.caller(), here.request(region="absent")
    if by == "check":
        return here.caller(), here.request(outputs=["absent"])
    return here.caller(), here.request()


async def refused(here: StagedPlane, by: str) -> tuple[TritonError, dict[str, str]]:
    """Send a request that is refused; return the error, and what each feature has seen."""
    plane, asked = refuse(here, by)
    model, sink = plane.resolve("m"), Sink()
    if by == "rollouts":
        # Resolved when versions took requests; none does any more.
        here.is_serving = False
        here.publish()
    try:
        here.send(plane, model, asked, sink)
    except TritonError as error:
        assert not sink.ended.done()
        return error, here.seen(asked, sink)
    raise AssertionError(f"{by} let the request pass")


@asynccontextmanager
async def staged_plane(*features: str) -> AsyncIterator[StagedPlane]:
    """Return a plane with some features, and a region ``r`` if ``regions`` is one of them."""
    async with Routed() as routed:
        here = StagedPlane(routed, features)
        for version in (1, 2):
            instance = await Instance().start()
            routed.instances.append(instance)
            here.instances[version] = instance
        here.publish()
        if "regions" not in features:
            yield here
            return
        path = Path("/dev/shm") / here.key
        path.write_bytes(bytes(64))
        try:
            await here.plane.settings.register_system("r", here.key, 0, 64)
            yield here
        finally:
            path.unlink()
