# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's rules for an ensemble that need the configs of the models it is made of.

Ensemble tensors are nodes. A tensor made by a decoupled step, and everything made from it, carries
that step's label; a step may only combine tensors with the same label, because only those come in
equal numbers.

Triton: core/src/ensemble_scheduler/ensemble_utils.cc ValidateEnsembleConfig @73aad7c
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from backends.api.datatypes import DATATYPES
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import EnsembleStep, ModelConfig, ModelInput, ModelOutput
from backends.config.pbtxt import edit
from backends.config.step_conditions import StepCondition, condition_of
from backends.config.validation.model import decoupled_with_cache


@dataclass(eq=False, slots=True)
class _Node:
    """An ensemble tensor, or the sink behind the ensemble's outputs.

    Attributes:
        model: The model its type and shape were inferred from.
        siblings: The outputs of the step that writes it.
        is_decoupled: Whether that step is decoupled.
        label: Number of the decoupled step it originates from; 0 for none.
    """

    model: str
    datatype: str = ""
    dims: tuple[int, ...] = ()
    full_dims: tuple[int, ...] = ()
    siblings: list["_Node"] = field(default_factory=list)
    is_decoupled: bool = False
    label: int = 0
    is_visited: bool = False
    sources: list["_Node"] = field(default_factory=list)
    targets: list["_Node"] = field(default_factory=list)


def with_composing(config: ModelConfig, composing: Mapping[str, ModelConfig]) -> ModelConfig:
    """Check an ensemble against the models of its steps and derive whether it is decoupled.

    Args:
        config: The ensemble's complete config.
        composing: Complete configs of the models of its steps, by key.

    Returns:
        The config, with ``model_transaction_policy`` as the steps make it.

    Raises:
        InvalidArgumentError: Tensors or batch sizes do not fit, or a decoupled ensemble has a
            response cache.
    """
    nodes: dict[str, _Node] = {}
    tensors: tuple[ModelInput | ModelOutput, ...] = (*config.input, *config.output)
    for tensor in tensors:
        dims = tensor.dims if tensor.reshape is None else tensor.reshape
        nodes.setdefault(tensor.name, _node(config, tensor.datatype, dims))
    sink = _Node(config.name)
    for output in config.output:
        _link(nodes[output.name], sink)
    for step in config.ensemble_steps:
        model = composing[step.model_key]
        if 0 < model.max_batch_size < config.max_batch_size:
            raise InvalidArgumentError(
                f"ensemble {config.name} allows maximum batch size {config.max_batch_size}, but it "
                f"contains model {step.model_name} which only allows maximum batch size to be "
                f"{model.max_batch_size}"
            )
        _add_step(config.name, nodes, step, model)
    for index, step in enumerate(config.ensemble_steps):
        condition = condition_of(config.parameters, index)
        if condition is not None:
            _add_condition(config.name, nodes, step, composing[step.model_key], condition)
    is_decoupled = _label(config, nodes) > 0
    if is_decoupled and config.response_cache:
        raise InvalidArgumentError(decoupled_with_cache(config.name))

    def derive(message: Any) -> None:
        message.model_transaction_policy.decoupled = is_decoupled

    return edit(config, derive)


def fits(expected: Sequence[int], given: Sequence[int]) -> bool:
    """Whether dims agree; -1 agrees with anything."""
    return len(expected) == len(given) and all(
        a == b or -1 in (a, b) for a, b in zip(expected, given, strict=True)
    )


def _node(model: ModelConfig, datatype: str, dims: tuple[int, ...]) -> _Node:
    batch = (-1,) if model.max_batch_size > 0 else ()
    return _Node(model.name, datatype, dims, (*batch, *dims))


def _link(source: _Node, target: _Node) -> None:
    target.sources.append(source)
    source.targets.append(target)


def _add_step(
    ensemble: str, nodes: dict[str, _Node], step: EnsembleStep, model: ModelConfig
) -> None:
    inputs = {each.name: each for each in model.input}
    outputs = {each.name: each for each in model.output}
    for name, tensor in step.input_map.items():
        if name not in inputs:
            raise InvalidArgumentError(
                f"in ensemble {ensemble}, ensemble tensor {tensor} is mapping to non-existing "
                f"input {name} in model {model.name}"
            )
    for name, given in inputs.items():
        if name in step.input_map:
            _infer(ensemble, nodes, step.input_map[name], model, given)
        elif not given.optional:
            raise InvalidArgumentError(
                f"in ensemble {ensemble}, input {name} in model {model.name} is not mapped to any "
                f"ensemble tensors"
            )
    for name, tensor in step.output_map.items():
        if name not in outputs:
            raise InvalidArgumentError(
                f"in ensemble {ensemble}, ensemble tensor {tensor} is mapped from non-existing "
                f"output {name} in model {model.name}"
            )
    for tensor, times in Counter(step.output_map.values()).items():
        if times > 1:
            raise InvalidArgumentError(
                f"in ensemble {ensemble}, multiple outputs in model {model.name} are mapped to the "
                f"same ensemble tensor {tensor}"
            )
    siblings: list[_Node] = []
    for name, tensor in step.output_map.items():
        _infer(ensemble, nodes, tensor, model, outputs[name])
        node = nodes[tensor]
        node.siblings = siblings
        node.is_decoupled = model.decoupled
        siblings.append(node)
        for source in step.input_map.values():
            _link(nodes[source], node)


def _add_condition(
    ensemble: str,
    nodes: dict[str, _Node],
    step: EnsembleStep,
    model: ModelConfig,
    condition: StepCondition,
) -> None:
    if model.decoupled:
        raise InvalidArgumentError(
            f"in ensemble {ensemble}, the step of model {model.name} has a condition, but the "
            f"model is decoupled; put the condition on the steps that follow"
        )
    if not condition.tensor:
        return
    decides = nodes[condition.tensor]
    if decides.datatype != "BOOL":
        raise InvalidArgumentError(
            f"in ensemble {ensemble}, the step of model {model.name} has a condition on ensemble "
            f"tensor {condition.tensor} of type {_config_name(decides)}, expected TYPE_BOOL"
        )
    for name in step.output_map.values():
        _link(decides, nodes[name])


def _infer(
    ensemble: str,
    nodes: dict[str, _Node],
    name: str,
    model: ModelConfig,
    tensor: ModelInput | ModelOutput,
) -> None:
    """Add the tensor a model reads or writes, or compare it with what another says of it."""
    there = _node(model, tensor.datatype, tensor.dims)
    here = nodes.setdefault(name, there)
    prefix = f"in ensemble {ensemble}, ensemble tensor {name}: "
    if here.datatype != there.datatype:
        raise InvalidArgumentError(
            f"{prefix}inconsistent data type: {_config_name(here)} is inferred from model "
            f"{here.model} while {_config_name(there)} is inferred from model {there.model}"
        )
    # Full dims too: [-1,16] of a model without batching is [16] of one with it.
    if not fits(here.dims, there.dims) and not fits(here.full_dims, there.full_dims):
        raise InvalidArgumentError(
            f"{prefix}inconsistent shape: {_rendered(here)} is inferred from model {here.model} "
            f"while {_rendered(there)} is inferred from model {there.model}"
        )


def _config_name(node: _Node) -> str:
    return DATATYPES[node.datatype].config_name


def _rendered(node: _Node) -> str:
    return "[" + ",".join(map(str, node.full_dims)) + "]"


def _label(config: ModelConfig, nodes: dict[str, _Node]) -> int:
    """Follow the data from the inputs and return the number of decoupled steps met."""
    labels = count(1)
    last = 0
    queue = deque(nodes[tensor.name] for tensor in config.input)
    for node in queue:
        node.is_visited = True
    while queue:
        for target in queue.popleft().targets:
            if target.is_visited or not all(source.is_visited for source in target.sources):
                continue
            label = target.sources[0].label
            if any(source.label != label for source in target.sources):
                raise InvalidArgumentError(
                    f"in ensemble {config.name}, step of model '{target.model}' receives inputs "
                    f"originated from different decoupled models"
                )
            labelled = next((node for node in target.siblings if node.is_visited), None)
            if labelled is not None:
                label = labelled.label
            elif target.is_decoupled:
                label = last = next(labels)
            target.label = label
            target.is_visited = True
            queue.append(target)
    return last
