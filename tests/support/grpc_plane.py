# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An in-memory data plane: the seam's double, with models written as functions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backends.api.errors import InvalidArgumentError, RequestCancelledError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.contracts.sinks import ResponseSink
from deployments.shared_memory.regions import place_outputs
from deployments.slabs.pool import SlabPool
from tests.support.memory_plane import FakeModel, MemoryPlane

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


class FakePlane(MemoryPlane):
    def __init__(self, *models: FakeModel) -> None:
        super().__init__()
        self.models = {model.name: model for model in models}
        self.repository.rows = [
            {"name": "simple", "version": "1", "state": "READY", "reason": ""},
            {"name": "broken"},
        ]
        self.repository.failures["no_such"] = "load failed for model 'no_such'"
        self.slabs = SlabPool(64 << 20)
        self.jobs: list[Job] = []
        self.arrived = asyncio.Event()

    def server_ready(self) -> bool:
        return not self.exiting

    def server_metadata(self) -> dict[str, Any]:
        return {"name": "triton", "version": "2.73.0", "extensions": ["classification"]}

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

    def _begin(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Job:
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
