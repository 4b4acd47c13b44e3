# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The graph of an ensemble: nodes are steps, edges are tensors. Immutable, compiled once.

Tensors are numbered; a step knows the numbers it reads and writes. A `Plan` is the part of the
graph that certain outputs need. Everything a request would otherwise look up by name is in tuples.

Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc @73aad7c
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from backends.api.model_config import ModelConfig
from backends.config.step_conditions import StepCondition, condition_of
from backends.config.validation.composing import fits

# Of the plans for subsets of the outputs, how many are kept; clients choose the subsets.
_PLAN_LIMIT = 64


class Fit(Enum):
    """What may have to be done to a tensor's shape between its writer and its reader."""

    AS_IS = "as is"
    ADD_BATCH = "add batch"
    DROP_BATCH = "drop batch"


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor on its way into a step or, as an output, out of the ensemble.

    Attributes:
        name: Its name there.
        tensor: Its number.
        fit: Whether writer and reader differ about a batch dimension.
        dims: What the reader's config says, without batch dimension.
        is_optional: Whether the reader can do without it.
    """

    name: str
    tensor: int
    fit: Fit
    dims: tuple[int, ...]
    is_optional: bool = False

    def shape_for(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in which the reader gets a tensor."""
        if self.fit is Fit.ADD_BATCH and fits(self.dims, shape):
            return (1, *shape)
        if self.fit is Fit.DROP_BATCH and shape[:1] == (1,) and not fits(self.dims, shape):
            return shape[1:]
        return shape


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        index: Its place in the config.
        model_name: Model that runs it.
        model_version: Version asked for; -1 for the newest.
        inputs: What it reads.
        outputs: Numbers of the tensors it writes, by the model's output names.
        output_names: The keys of ``outputs``, as requests list them.
        is_decoupled: Whether it may answer any number of times.
        condition: When it runs; None for always.
        decider: Number of the tensor of its condition; -1 when there is none.
    """

    index: int
    model_name: str
    model_version: int
    inputs: tuple[Edge, ...]
    outputs: Mapping[str, int]
    output_names: tuple[str, ...]
    is_decoupled: bool
    condition: StepCondition | None = None
    decider: int = -1

    @property
    def reads(self) -> frozenset[int]:
        """Numbers of the tensors it reads."""
        read = frozenset(edge.tensor for edge in self.inputs)
        return read if self.decider < 0 else read | {self.decider}


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that a choice of outputs needs.

    Attributes:
        readers: By tensor: the steps that read it.
        uses: By tensor: how often it is read, by steps or as an output.
        waiting: By step: how many tensors it reads.
        outputs: The outputs wanted.
        wanted: Numbers of their tensors.
        steps: Numbers of the steps that run.
    """

    readers: tuple[tuple[int, ...], ...]
    uses: tuple[int, ...]
    waiting: tuple[int, ...]
    outputs: tuple[Edge, ...]
    wanted: frozenset[int]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """An ensemble, compiled.

    Attributes:
        name: Ensemble.
        is_decoupled: Whether one of its steps is.
        tensors: Names by number.
        inputs: Numbers of the ensemble's inputs, by name.
        optional: Numbers of those that a request may leave out.
        outputs: The ensemble's outputs.
        steps: Its steps.
    """

    name: str
    is_decoupled: bool
    tensors: tuple[str, ...]
    inputs: Mapping[str, int]
    optional: tuple[int, ...]
    outputs: tuple[Edge, ...]
    steps: tuple[Step, ...]
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict, compare=False, repr=False)

    def plan(self, outputs: Sequence[str]) -> Plan:
        """Return what has to run for these outputs; an empty choice means all of them."""
        key = tuple(outputs)
        known = self._plans.get(key)
        if known is None:
            if len(self._plans) >= _PLAN_LIMIT:
                self._plans.clear()
            known = self._plans[key] = self._make_plan(frozenset(key))
        return known

    def _make_plan(self, names: Collection[str]) -> Plan:
        outputs = tuple(edge for edge in self.outputs if not names or edge.name in names)
        wanted = frozenset(edge.tensor for edge in outputs)
        writers = {number: step for step in self.steps for number in step.outputs.values()}
        needed: set[int] = set()
        missing = [writers[number] for number in wanted if number in writers]
        while missing:
            step = missing.pop()
            if step.index not in needed:
                needed.add(step.index)
                missing.extend(writers[number] for number in step.reads if number in writers)
        steps = tuple(sorted(needed))
        readers = tuple(
            tuple(index for index in steps if number in self.steps[index].reads)
            for number in range(len(self.tensors))
        )
        return Plan(
            readers=readers,
            uses=tuple(len(each) + (number in wanted) for number, each in enumerate(readers)),
            waiting=tuple(len(step.reads) for step in self.steps),
            outputs=outputs,
            wanted=wanted,
            steps=steps,
        )


def compile_graph(config: ModelConfig, composing: Sequence[ModelConfig]) -> StepGraph:
    """Compile an ensemble whose config was checked against its models.

    Args:
        config: The ensemble's complete config.
        composing: The complete config of each step's model, in the order of the steps.
    """
    numbers: dict[str, int] = {}
    is_batching: dict[int, bool] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    for tensor in config.input:
        is_batching[number(tensor.name)] = config.max_batch_size > 0
    for step, model in zip(config.ensemble_steps, composing, strict=True):
        for name in step.output_map.values():
            is_batching[number(name)] = model.max_batch_size > 0

    def edge(
        name: str, tensor: str, dims: tuple[int, ...], reader: ModelConfig, optional: bool = False
    ) -> Edge:
        reads_batches, at = reader.max_batch_size > 0, number(tensor)
        if is_batching.get(at, reads_batches) == reads_batches:
            fit = Fit.AS_IS
        else:
            fit = Fit.ADD_BATCH if reads_batches else Fit.DROP_BATCH
        return Edge(name, at, fit, dims, optional)

    steps = []
    for index, step in enumerate(config.ensemble_steps):
        model = composing[index]
        by_name = {each.name: each for each in model.input}
        condition = condition_of(config.parameters, index)
        steps.append(
            Step(
                index=index,
                model_name=step.model_name,
                model_version=step.model_version,
                inputs=tuple(
                    edge(name, tensor, by_name[name].dims, model, by_name[name].optional)
                    for name, tensor in step.input_map.items()
                ),
                outputs={name: number(tensor) for name, tensor in step.output_map.items()},
                output_names=tuple(step.output_map),
                is_decoupled=model.decoupled,
                condition=condition,
                decider=number(condition.tensor) if condition and condition.tensor else -1,
            )
        )
    return StepGraph(
        name=config.name,
        is_decoupled=config.decoupled,
        inputs={each.name: number(each.name) for each in config.input},
        optional=tuple(number(each.name) for each in config.input if each.optional),
        outputs=tuple(
            edge(each.name, each.name, each.dims if each.reshape is None else each.reshape, config)
            for each in config.output
        ),
        steps=tuple(steps),
        tensors=tuple(numbers),
    )
