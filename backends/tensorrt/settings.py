# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config says of its plan and of how to run it.

Triton: tensorrt_backend/src/model_state.cc ModelState, src/instance_state.cc ModelInstanceState,
GetProfileIndex
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import edit, to_message
from backends.framework.files import existing_path
from backends.framework.parameters import Parameters
from backends.tensorrt.engine import Engine

logger = logging.getLogger(__name__)

PLAN_FILE: Final = "model.plan"
_STRATEGY: Final = "execution_context_allocation_strategy"
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
    given = config.parameters.get(_STRATEGY)
    strategy = _STRATEGIES[0] if given is None else given
    if strategy not in _STRATEGIES:
        raise InvalidArgumentError(
            f"Invalid value for '{_STRATEGY}': '{strategy}' for model instance '{config.name}'. "
            "Supported values are 'STATIC' and 'ON_PROFILE_CHANGE'."
        )
    if given is not None:
        logger.info("'%s' set to '%s' for model instance '%s'", _STRATEGY, strategy, config.name)
    optimization = to_message(config).optimization
    return Settings(
        strategy, _PRIORITY.get(optimization.priority, 0), bool(optimization.cuda.graphs)
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
