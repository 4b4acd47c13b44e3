# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's rules for an ensemble that need only the ensemble's own config.

Ensemble tensors are the nodes of a graph: each step links every tensor it reads to every tensor it
writes. A tensor is ready when it is an input of the ensemble or all tensors before it are ready.

Triton: core/src/model_config_utils.cc ValidateEnsembleSchedulingConfig @73aad7c
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backends.config.step_conditions import condition_complaints, condition_of


@dataclass(eq=False, slots=True)
class _Tensor:
    """A node of the graph."""

    name: str
    written: bool = False
    ready: bool = False
    sources: list["_Tensor"] = field(default_factory=list)
    targets: list["_Tensor"] = field(default_factory=list)


def ensemble_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with a ModelConfig message that has ensemble_scheduling."""
    name = message.name
    if message.instance_group:
        yield f"instance group should not be specified for ensemble '{name}'"
    if message.HasField("optimization"):
        yield f"optimization should not be specified for ensemble '{name}'"
    if message.model_warmup:
        yield f"model_warmup can not be specified for ensemble '{name}'"
    steps = message.ensemble_scheduling.step
    if not steps:
        yield f"must specify 'step' for ensemble '{name}'"
    for index, step in enumerate(steps):
        for part in ("model_name", "input_map", "output_map"):
            if not getattr(step, part):
                yield f"must specify '{part}' in step {index} of ensemble '{name}'"
    parameters = {key: entry.string_value for key, entry in message.parameters.items()}
    yield from condition_complaints(name, parameters, len(steps))
    tensors: dict[str, _Tensor] = {}
    for index, step in enumerate(steps):
        reads = list(step.input_map.values())
        condition = condition_of(parameters, index)
        if condition is not None and condition.tensor:
            reads.append(condition.tensor)
        yield from _link(tensors, step, reads, f"'{name}' step {index}")
    yield from _data_flow(tensors, message)


def _link(tensors: dict[str, _Tensor], step: Any, reads: list[str], place: str) -> Iterator[str]:
    written = []
    for name in step.output_map.values():
        tensor = tensors.setdefault(name, _Tensor(name))
        if tensor.written:
            yield (
                f"ensemble tensor '{name}' can appear in an output map only once for ensemble "
                f"{place}"
            )
        tensor.written = True
        written.append(tensor)
    for name in reads:
        source = tensors.setdefault(name, _Tensor(name))
        for target in written:
            target.sources.append(source)
            source.targets.append(target)


def _data_flow(tensors: dict[str, _Tensor], message: Any) -> Iterator[str]:
    ensemble = message.name
    for tensor in message.input:
        if tensor.name not in tensors:
            yield f"ensemble input '{tensor.name}' for ensemble {ensemble}' is not used"
    _mark_ready(tensors, [tensor.name for tensor in message.input])
    outputs = {tensor.name for tensor in message.output}
    for tensor in message.output:
        node = tensors.get(tensor.name)
        if node is None:
            yield f"ensemble output '{tensor.name}' for ensemble {ensemble}' is not used"
        elif not node.ready:
            yield f"output '{node.name}' for ensemble '{ensemble}' is not written{_cause(node)}"
    for node in tensors.values():
        if node.name not in outputs and not (node.ready and node.targets):
            yield f"ensemble tensor '{node.name}' is unused in ensemble '{ensemble}'"


def _mark_ready(tensors: dict[str, _Tensor], inputs: list[str]) -> None:
    queue = deque(tensors[name] for name in inputs if name in tensors)
    for tensor in queue:
        tensor.ready = True
    while queue:
        for target in queue.popleft().targets:
            if not target.ready and all(source.ready for source in target.sources):
                target.ready = True
                queue.append(target)


def _cause(output: _Tensor) -> str:
    """Follow tensors that are not ready from ``output`` back to where the data is missing."""
    last, seen = output, {output.name}
    while True:
        missing = (node for node in last.sources if not node.ready and node.name not in seen)
        node = next(missing, None)
        if node is None:
            break
        seen.add(node.name)
        last = node
    if last is output:
        return ""
    return f": at least one of its depending tensors, '{last.name}', is not connected"
