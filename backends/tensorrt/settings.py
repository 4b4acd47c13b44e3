# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config says of its plan and of how to run it.

Triton: tensorrt_backend/src/model_state.cc ModelState, src/instance_state.cc ModelInstanceState,
ValidateIOHelper, GetProfileIndex
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit, to_message
from backends.framework import auto_complete
from backends.framework.files import existing_path
from backends.framework.parameters import Parameters
from backends.framework.validation import validate
from backends.tensorrt.engine import RULES, Engine

logger = logging.getLogger(__name__)

PLAN_FILE: Final = "model.plan"
_STRATEGIES: Final = ("STATIC", "ON_PROFILE_CHANGE")
# By the number of ModelOptimizationPolicy.ModelPriority.
_PRIORITY: Final = {0: 0, 1: 1, 2: -1}
_GRAPH_BATCHES: Final = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class Settings:
    """How an instance runs.

    Attributes:
        strategy: Name of an ``ExecutionContextAllocationStrategy``.
        priority: Of its stream: 1 for the highest, -1 for the lowest, 0 for the default.
        uses_graphs: Whether executions are captured as CUDA graphs.
    """

    strategy: str
    priority: int
    uses_graphs: bool


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """Shapes to capture a graph of: by input, batch dimension included."""

    shapes: dict[str, tuple[int, ...]]


def require_gpu(context: LoadContext) -> None:
    """Check that an instance is on one GPU.

    Raises:
        InvalidArgumentError: It is on the CPU.
        UnsupportedError: It is to be on several.
    """
    config = context.config
    if Parameters(config).flag("enable_multi_device", default=False):
        raise UnsupportedError(
            f"model '{config.name}' has parameter enable_multi_device; this backend runs an engine "
            "on one GPU"
        )
    if context.kind != "GPU":
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', TensorRT backend supports only GPU device; "
            f"instance '{context.instance_name}' is of kind {context.kind}. Where there is no GPU, "
            "serve the model it was built from, with backend 'onnxruntime' for one"
        )


def plan_path(context: LoadContext, compute_capability: str) -> str:
    """Return the path of the plan for a GPU.

    Raises:
        UnavailableError: There is none.
        InvalidArgumentError: Its name leads out of the version directory.
    """
    by_gpu = to_message(context.config).cc_model_filenames
    name = by_gpu.get(compute_capability, "")
    if not name:
        return existing_path(context, PLAN_FILE)

    def change(message: Any) -> None:
        message.default_model_filename = name

    own = edit(context.config, change)
    return existing_path(
        LoadContext(own, context.model_dir, context.version, context.instance_name), PLAN_FILE
    )


def read_settings(context: LoadContext) -> Settings:
    """Return the settings of an instance.

    Raises:
        InvalidArgumentError: One has a value that is none.
    """
    config = context.config
    strategy = config.parameters.get("execution_context_allocation_strategy", _STRATEGIES[0])
    if strategy not in _STRATEGIES:
        raise InvalidArgumentError(
            f"Invalid value for 'execution_context_allocation_strategy': '{strategy}' for model "
            f"instance '{context.instance_name}'. Supported values are 'STATIC' and "
            "'ON_PROFILE_CHANGE'."
        )
    optimization = to_message(config).optimization
    return Settings(
        strategy, _PRIORITY.get(optimization.priority, 0), bool(optimization.cuda.graphs)
    )


def completed(context: LoadContext, engine: Engine) -> ModelConfig:
    """Return the config with what an engine tells.

    Raises:
        InvalidArgumentError: max_batch_size is more than the engine allows.
    """
    config, most = context.config, engine.max_batch
    if config.max_batch_size > 0 and not most:
        raise InvalidArgumentError(
            f"autofill failed for model '{config.name}': model tensor shape configuration hints "
            "for dynamic batching but the underlying engine doesn't support batching."
        )
    if config.max_batch_size > most:
        raise InvalidArgumentError(
            f"autofill failed for model '{config.name}': configuration specified max-batch "
            f"{config.max_batch_size} but TensorRT engine only supports max-batch {most}"
        )
    size = config.max_batch_size or most
    shapes = {each.name for each in engine.tensors if each.is_shape}
    others = {each.name for each in engine.tensors if not each.is_linear}
    is_given = {id_: bool(getattr(config, id_)) for id_ in ("input", "output")}

    def mark(message: Any) -> None:
        for side, given in is_given.items():
            for entry in () if given else getattr(message, side):
                entry.is_shape_tensor = entry.name in shapes
                entry.is_non_linear_format_io = entry.name in others

    return edit(auto_complete.filled(config, engine.signature(), size), mark)


def check_config(config: ModelConfig, engine: Engine) -> None:
    """Check that a complete config describes an engine.

    Raises:
        InvalidArgumentError: It does not.
        InternalError: A datatype is one TensorRT lacks.
    """
    if config.max_batch_size > engine.max_batch:
        raise InvalidArgumentError(
            f"unexpected configuration maximum batch size {config.max_batch_size} for "
            f"'{config.name}', model maximum is {engine.max_batch}"
        )
    validate(config, engine.signature(), RULES)
    message = to_message(config)
    known = {each.name: each for each in engine.tensors}
    for kind, entries in (("input", message.input), ("output", message.output)):
        for entry in entries:
            tensor = known[entry.name]
            where = f"{kind} '{entry.name}' for model '{config.name}'"
            _check_mark(where, "shape tensor", tensor.is_shape, entry.is_shape_tensor)
            _check_mark(
                where, "non-linear format io", not tensor.is_linear, entry.is_non_linear_format_io
            )


def _check_mark(where: str, what: str, is_so: bool, is_marked: bool) -> None:
    if is_so and not is_marked:
        raise InvalidArgumentError(
            f"{where} is a {what} but the model configuration doesn't mark it as a {what}."
        )
    if is_marked and not is_so:
        raise InvalidArgumentError(
            f"{where} is incorrectly marked as a {what} in the model configuration."
        )


def profile_indices(context: LoadContext, count: int) -> tuple[int, ...]:
    """Return the optimization profiles that an instance's group names; the first, if none.

    Args:
        context: The instance.
        count: How many the engine has.

    Raises:
        InvalidArgumentError: A name is no number, or not one of a profile.
    """
    group = context.instance_name.rpartition("_")[0]
    names = next((each.profile for each in context.config.instance_group if each.name == group), ())
    indices = []
    for name in names:
        if not name.strip().isdecimal():
            raise InvalidArgumentError(
                f"unable to parse '{name}': stoi; profiles of instance group '{group}' are indices "
                f"of optimization profiles, 0-{count - 1}"
            )
        index = int(name)
        if index >= count:
            raise InvalidArgumentError(
                f"Can not set the specified optimization profile {name}[{index}] for "
                f"{context.instance_name}. Expected optimization profile index range 0-{count - 1}"
            )
        indices.append(index)
    return tuple(dict.fromkeys(indices)) or (0,)


def graph_specs(config: ModelConfig, engine: Engine) -> list[GraphSpec]:
    """Return the shapes that graphs are captured of before the first request, largest batch first.

    Those the config names; else, for inputs whose other dimensions are fixed, some batch sizes.
    """
    batched = config.max_batch_size > 0
    specs = [
        _given_spec(each, batched=batched)
        for each in to_message(config).optimization.cuda.graph_spec
    ]
    if specs:
        return sorted(specs, key=_batch_of, reverse=True)
    inner = {each.name: each.shape[1:] if batched else each.shape for each in engine.inputs}
    if any(dim < 0 for dims in inner.values() for dim in dims):
        return []
    if not batched:
        return [GraphSpec(inner)]
    sizes = {each for each in _GRAPH_BATCHES if each < config.max_batch_size}
    return [
        GraphSpec({name: (size, *dims) for name, dims in inner.items()})
        for size in sorted(sizes | {config.max_batch_size}, reverse=True)
    ]


def _given_spec(entry: Any, *, batched: bool) -> GraphSpec:
    batch = (max(1, entry.batch_size),) if batched else ()
    return GraphSpec({name: (*batch, *shape.dim) for name, shape in entry.input.items()})


def _batch_of(spec: GraphSpec) -> int:
    return max((dims[0] for dims in spec.shapes.values() if dims), default=0)
