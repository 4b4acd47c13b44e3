# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An in-memory data plane: the seam's double, with models written as functions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends.api.errors import InvalidArgumentError, NotFoundError, RequestCancelledError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Call, Stage
from deployments.routing.request_check import RequestChecker
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import locate_regions, look_at_inputs, place_outputs
from deployments.slabs.pool import SlabPool
from deployments.tracing.tracer import Arrival, Tracer
from tests.support.fake_rollouts import FakeRollouts
from tests.support.settings_control import MemoryControl, settings_plane

Execute = Callable[[InferenceRequest, "Job"], None]


class Job:
    """One accepted request: its sink, and what became of it."""

    def __init__(
        self, plane: "FakePlane", model: "FakeModel", request: InferenceRequest, sink: ResponseSink
    ) -> None:
        self.plane = plane
        self.model, self.request, self.sink = model, request, sink
        self.cancelled = asyncio.Event()

    @property
    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.cancelled.set()
            self.sink.fail(RequestCancelledError("cancelled"))

    def respond(self, *, final: bool = True, **arrays: Any) -> None:
        outputs = [tensor_from_numpy(name, array) for name, array in arrays.items()]
        response = InferenceResponse(
            self.model.name, str(self.model.version), self.request.id, outputs
        )
        place_outputs(response, self.request.regions or {}, self.plane.memory)
        self.sink.respond(response, final=final)


@dataclass
class FakeModel:
    config: ModelConfig
    execute: Execute
    version: int = 1
    labels: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config.name


class FakeRepository:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        self.calls.append(("index", ready_only))
        return [
            {"name": "simple", "version": "1", "state": "READY", "reason": ""},
            {"name": "broken"},
        ]

    async def load(self, model_name: str, parameters: Any) -> None:
        self.calls.append(("load", model_name, parameters))
        if model_name == "no_such":
            raise InvalidArgumentError("load failed for model 'no_such'")

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        self.calls.append(("unload", model_name, unload_dependents))


class FakePlane:
    def __init__(self, *models: FakeModel) -> None:
        self.models = {model.name: model for model in models}
        # Models that are loaded by their first use, those that were, and what that fails with.
        self.unread: dict[str, FakeModel] = {}
        self.used: list[str] = []
        self.load_error: Exception | None = None
        self.repository = FakeRepository()
        self.rollouts = FakeRollouts()
        self.headers: Any = ()
        self.slabs = SlabPool(64 << 20)
        self.has_started = True
        self.draining = False
        self.exiting = False
        self.tracer = Tracer()
        self.control = MemoryControl()
        self.settings = settings_plane(self.control, self.resolve)
        self.memory = RegionMemory()
        self.jobs: list[Job] = []
        self.arrived = asyncio.Event()

    def server_live(self) -> bool:
        return not self.exiting

    def server_ready(self) -> bool:
        return not self.exiting

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "triton", "version": "2.73.0", "extensions": ["classification"]}

    def resolve(self, name: str, version: str = "") -> Any:
        model = self.models.get(name)
        if model is None:
            raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        if version and version != str(model.version):
            raise NotFoundError(
                f"Request for unknown model: '{name}' version {version} is not found"
            )
        return model

    def first_use(self, name: str) -> Awaitable[None] | None:
        return self._use(name) if name in self.unread else None

    async def _use(self, name: str) -> None:
        self.used.append(name)
        await asyncio.sleep(0)
        if self.load_error is not None:
            raise self.load_error
        if name in self.unread:
            self.models[name] = self.unread.pop(name)

    def is_unread(self, name: str) -> bool:
        return name in self.unread

    def model_ready(self, name: str, version: str = "") -> bool:
        return self.resolve(name, version) is not None

    def says_ready(self, name: str, version: str = "") -> Awaitable[bool]:
        return asyncio.sleep(0, self.resolve(name, version) is not None)

    def model_config(self, name: str, version: str = "") -> Any:
        return self.resolve(name, version).config

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        model = self.resolve(name, version)
        return {
            "name": name,
            "versions": [str(model.version)],
            "platform": "python",
            "inputs": [
                {"name": each.name, "datatype": each.datatype, "shape": [-1, *each.dims]}
                for each in model.config.input
            ],
            "outputs": [],
        }

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        if name and name not in self.models:
            raise InvalidArgumentError(f"requested model '{name}' is not available")
        duration = {"count": 3, "ns": 4000}
        return {
            "model_stats": [
                {
                    "name": name or "simple",
                    "version": "1",
                    "last_inference": 1732150000000,
                    "inference_count": 3,
                    "execution_count": 2,
                    "inference_stats": {"success": duration, "fail": {"count": 0, "ns": 0}},
                    "batch_stats": [{"batch_size": 1, "compute_infer": duration}],
                }
            ]
        }

    def infer(
        self,
        model: Any,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Any = (),
        tenant: str = "",
        arrival: Arrival | None = None,
        stages: Sequence[Stage] = (),
    ) -> Inflight:
        self.headers, self.arrival = headers, arrival
        return Call(model, request, sink, headers, tenant, arrival).start(stages, self._send)

    def _send(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Job:
        if request.regions is not None:
            locate_regions(request, self.control.settings.regions)
            look_at_inputs(request, self.memory, runs_here=True)
        RequestChecker(model.config).check(request)
        job = Job(self, model, request, sink)
        self.jobs.append(job)
        self.arrived.set()
        model.execute(request, job)
        return job


def tensors(
    kind: Callable[..., Any], *names: str, datatype: str = "INT32", dims: Sequence[int] = (16,)
) -> Any:
    return tuple(kind(name, datatype, dims) for name in names)


def add_sub(request: InferenceRequest, job: Job) -> None:
    left: Any
    right: Any
    left, right = (tensor_as_numpy(each) for each in request.inputs)
    wanted = request.outputs or ["OUTPUT0", "OUTPUT1"]
    results = {"OUTPUT0": left + right, "OUTPUT1": left - right}
    job.respond(**{name: array for name, array in results.items() if name in wanted})


def repeat(request: InferenceRequest, job: Job) -> None:
    count: Any
    (count,) = tensor_as_numpy(request.inputs[0])
    for index in range(count):
        job.respond(final=False, OUT=np.array([index], np.int32))
    job.sink.respond(None, final=True)


def hold(request: InferenceRequest, job: Job) -> None:
    """Answers nothing; the test does."""


SIMPLE = FakeModel(
    ModelConfig(
        name="simple",
        max_batch_size=8,
        input=tensors(ModelInput, "INPUT0", "INPUT1"),
        output=tensors(ModelOutput, "OUTPUT0", "OUTPUT1"),
        message=b"\x0a\x06simple",
    ),
    add_sub,
    labels={"OUTPUT0": ("zero", "one")},
)
DECOUPLED = FakeModel(
    ModelConfig(
        name="decoupled",
        input=tensors(ModelInput, "COUNT", dims=(1,)),
        output=tensors(ModelOutput, "OUT", dims=(1,)),
        decoupled=True,
    ),
    repeat,
)
HELD = FakeModel(
    ModelConfig(
        name="held",
        input=tensors(ModelInput, "IN", dims=(1,)),
        output=tensors(ModelOutput, "OUT", dims=(1,)),
    ),
    hold,
)
LARGE = FakeModel(
    ModelConfig(
        name="large",
        input=tensors(ModelInput, "IN", datatype="FP32", dims=(-1,)),
        output=tensors(ModelOutput, "OUT", datatype="FP32", dims=(-1,)),
    ),
    lambda request, job: job.respond(OUT=tensor_as_numpy(request.inputs[0])),
)


def fake_plane() -> FakePlane:
    return FakePlane(SIMPLE, DECOUPLED, HELD, LARGE)
