# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ensembles for tests: configs by hand, and steps that are answered when the test says so."""

from collections.abc import Mapping, Sequence

from backends.api.errors import TritonError
from backends.api.model_config import EnsembleStep, ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, InferenceResponse, ParameterValue, Tensor
from deployments.contracts.sinks import ResponseSink
from deployments.ensembles.graph import Step, StepGraph, compile_graph
from deployments.ensembles.run import EnsembleRun
from deployments.ensembles.step import StepLimits

DIMS = (-1,)


def model(
    name: str,
    inputs: str,
    outputs: str,
    *,
    batch: int = 8,
    decoupled: bool = False,
    dims: tuple[int, ...] = DIMS,
) -> ModelConfig:
    """A model whose tensors are FP32; a name that ends in ``?`` is an optional input."""
    return ModelConfig(
        name,
        max_batch_size=batch,
        decoupled=decoupled,
        input=tuple(
            ModelInput(each.rstrip("?"), "FP32", dims, optional=each.endswith("?"))
            for each in inputs.split()
        ),
        output=tuple(ModelOutput(each, "FP32", dims) for each in outputs.split()),
    )


def step(name: str, inputs: str, outputs: str) -> EnsembleStep:
    """Maps are ``model_tensor=ensemble_tensor`` separated by blanks."""
    return EnsembleStep(name, -1, _pairs(inputs), _pairs(outputs))


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())


def graph(
    inputs: str,
    outputs: str,
    steps: Sequence[EnsembleStep],
    models: Sequence[ModelConfig],
    *,
    decoupled: bool = False,
    dims: tuple[int, ...] = DIMS,
    parameters: Mapping[str, str] | None = None,
) -> StepGraph:
    by_name = {each.name: each for each in models}
    base = model("e", inputs, outputs, decoupled=decoupled, dims=dims)
    config = ModelConfig(
        "e",
        max_batch_size=base.max_batch_size,
        decoupled=decoupled,
        input=base.input,
        output=base.output,
        has_ensemble_scheduling=True,
        parameters=parameters or {},
        ensemble_steps=tuple(steps),
    )
    return compile_graph(config, [by_name[each.model_name] for each in steps])


def tensor(name: str, text: str = "", shape: tuple[int, ...] = (1, 1)) -> Tensor:
    return Tensor(name, "FP32", shape, memoryview(text.encode()))


def request(*inputs: Tensor | str, **fields: object) -> InferenceRequest:
    tensors = [each if isinstance(each, Tensor) else tensor(each, each) for each in inputs]
    return InferenceRequest("e", inputs=tensors, id="7", **fields)  # type: ignore[arg-type]


class Sink:
    """Keeps what the ensemble answers; ``outcome`` says how it ended."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []
        self.finals: list[bool] = []
        self.error: TritonError | None = None
        self.ends = 0

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        assert not self.ends, "an answer after the end"
        if response is not None:
            self.responses.append(response)
            self.finals.append(final)
        self.ends += final

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        assert final, "an ensemble's error is its end"
        assert not self.ends, "an error after the end"
        self.error = error
        self.ends += 1

    @property
    def texts(self) -> list[dict[str, str]]:
        """The data of the outputs, by name, of each response."""
        return [
            {each.name: bytes(each.data).decode() for each in response.outputs}
            for response in self.responses
        ]


class Call:
    """One step request; answer it with `answer` or `fail`."""

    def __init__(self, step: Step, request: InferenceRequest, sink: ResponseSink) -> None:
        self.step = step
        self.request = request
        self.sink = sink
        self.cancelled = False
        self.count = 0
        self.credits = 0

    def cancel(self) -> None:
        self.cancelled = True

    def credit(self) -> None:
        self.credits += 1

    @property
    def inputs(self) -> dict[str, str]:
        return {each.name: bytes(each.data).decode() for each in self.request.inputs}

    def answer(
        self,
        *outputs: Tensor,
        final: bool = True,
        parameters: Mapping[str, ParameterValue] | None = None,
        compute_ns: tuple[int, int, int] | None = None,
        share_ns: int = 0,
        queue_ns: int = 0,
    ) -> None:
        response = InferenceResponse(
            self.step.model_name,
            "1",
            outputs=list(outputs),
            parameters=dict(parameters or {}),
            compute_ns=compute_ns,
            share_ns=share_ns,
            queue_ns=queue_ns,
        )
        self.sink.respond(response, final=final)

    def run(self, final: bool = True, only: Sequence[str] | None = None) -> None:
        """Answer with ``model(inputs)`` and, from the second on, the number of the answer."""
        names = self.step.output_names if only is None else only
        count = f"#{self.count}" if self.step.is_decoupled else ""
        self.count += 1
        inputs = ",".join(self.inputs.values())
        text = f"{self.step.model_name}({inputs}){count}"
        self.answer(*(tensor(name, f"{text}.{name}") for name in names), final=final)

    def close(self) -> None:
        """End without a further answer."""
        self.sink.respond(None, final=True)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.sink.fail(error, final=final)


class Rig:
    """Runs one request; its step requests wait in ``calls``."""

    def __init__(
        self,
        graph: StepGraph,
        request: InferenceRequest,
        *,
        limits: StepLimits | None = None,
        refusals: Mapping[str, TritonError] | None = None,
    ) -> None:
        self.calls: list[Call] = []
        self.sink = Sink()
        self.refusals = dict(refusals or {})
        self.ended: list[TritonError | None] = []
        self.run = EnsembleRun(
            graph, "1", request, self.sink, self._send, limits, lambda _, e: self.ended.append(e)
        )
        self.run.start()

    def _send(self, step: Step, request: InferenceRequest, sink: ResponseSink, /) -> Call:
        if step.model_name in self.refusals:
            raise self.refusals[step.model_name]
        call = Call(step, request, sink)
        self.calls.append(call)
        return call

    @property
    def names(self) -> list[str]:
        """Models of the step requests sent so far."""
        return [call.step.model_name for call in self.calls]
