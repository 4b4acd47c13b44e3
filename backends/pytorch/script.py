# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TorchScript modules.

Triton: pytorch_backend/src/pt/model_state.cc LoadModel, model_instance_state.cc ValidateInputs,
Execute
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.framework.signature import fed_by_scheduler
from backends.framework.validation import config_name
from backends.pytorch.datatypes import SUPPORTED
from backends.pytorch.naming import in_order, input_places, output_places
from backends.pytorch.program import Program, Results, device_of, load_failure
from backends.pytorch.settings import Settings
from backends.pytorch.weights import share_weights

_SELF = "ClassType"
_DICT = "DictType"
_TENSORS = frozenset({"TensorType", "ListType"})
# What may call code that is not in the graph.
_OPAQUE = frozenset({"prim::SetAttr", "prim::CallMethod", "prim::CallFunction", "prim::fork"})


def load_script(context: LoadContext, path: str, settings: Settings) -> Program:
    """Load a TorchScript module onto the instance's device; KIND_MODEL leaves it where it was.

    Raises:
        InternalError: PyTorch cannot load it, or it takes what no config can feed.
        InvalidArgumentError: Config and module contradict each other.
        UnavailableError: Its GPU cannot be used.
    """
    config = context.config
    device = device_of(context)
    module = _loaded(context, path, device)
    if settings.shares_weights:
        share_weights(context, path, module.state_dict(keep_vars=True))
    check_datatypes(config)
    _check_strings(config)
    kinds = _argument_kinds(module)
    takes_dict = list(kinds.values()) == [_DICT]
    inputs = _dict_keys(config) if takes_dict else _arguments(config, module, kinds)
    forward = module.forward
    if takes_dict:

        def call(*arguments: Any) -> Results:
            return _results(forward(dict(zip(inputs, arguments, strict=True))))
    else:

        def call(*arguments: Any) -> Results:
            return _results(forward(*arguments))

    return Program(
        call,
        inputs,
        output_places(config),
        device,
        mutates=any(_may_write(node) for node in _nodes(module.inlined_graph)),
    )


def _loaded(context: LoadContext, path: str, device: torch.device) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`?torch\.jit", DeprecationWarning)
            load: Any = torch.jit.load
            return load(path) if context.kind == "MODEL" else load(path, map_location=device)
    except Exception as error:
        raise load_failure(context, error) from error


def check_datatypes(config: ModelConfig, *, takes_strings: bool = True) -> None:
    """Check that PyTorch has the datatypes of a config, those of controls and states among them.

    Args:
        config: The config.
        takes_strings: Whether the model may take and give strings.

    Raises:
        InternalError: It lacks one.
    """
    known = SUPPORTED if takes_strings else SUPPORTED - {"BYTES"}
    sequences = config.sequence_batching
    states = () if sequences is None else sequences.states
    for what, name, datatype in (
        *(("input", each.name, each.datatype) for each in config.input),
        *(("output", each.name, each.datatype) for each in config.output),
        *(("input state", each.input_name, each.datatype) for each in states),
    ):
        if datatype not in known:
            raise InternalError(
                f"unsupported datatype {config_name(datatype)} for {what} '{name}' for model "
                f"'{config.name}'"
            )
    for control in () if sequences is None else sequences.controls:
        if control.datatype not in known:
            raise InternalError(
                f"input '{control.name}' type '{config_name(control.datatype)}' is not supported "
                f"by PyTorch. It is a control of model '{config.name}'"
            )


def _check_strings(config: ModelConfig) -> None:
    for direction, entries in (("input", config.input), ("output", config.output)):
        for entry in entries:
            dims = entry.dims if entry.reshape is None else entry.reshape
            if entry.datatype == "BYTES" and len(dims) + (config.max_batch_size > 0) > 1:
                raise InternalError(
                    f"Triton only supports 1 dimensional List of String as {direction} for "
                    f"'{entry.name}' for model '{config.name}'; the batch is that dimension, so "
                    "with max_batch_size above 0 give dims [ 1 ] and an empty reshape"
                )


def _argument_kinds(module: Any) -> dict[str, str]:
    """Return the kind of each argument of forward."""
    kinds = {each.name: each.type.kind() for each in module.forward.schema.arguments}
    return {name: kind for name, kind in kinds.items() if kind != _SELF}


def _arguments(config: ModelConfig, module: Any, kinds: Mapping[str, str]) -> tuple[str, ...]:
    if _DICT in list(kinds.values())[1:]:
        raise InternalError(
            "Multiple inputs of kind DictType were detected. Only a single input of type "
            "Dict(str, Tensor) is supported."
        )
    for argument in module.forward.schema.arguments:
        if argument.name in kinds and argument.type.kind() not in _TENSORS:
            raise InternalError(
                f"An input of type '{argument.type}' was detected in the model. Only a single "
                "input of type Dict(str, Tensor) or input(s) of type Tensor are supported."
            )
    fed = len(config.input) + len(fed_by_scheduler(config))
    if fed != len(kinds):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {fed} inputs, model "
            f"provides {len(kinds)}"
        )
    names = {name: place for place, name in enumerate(kinds)}
    return tuple(in_order(input_places(config, names, len(kinds))))


def _dict_keys(config: ModelConfig) -> tuple[str, ...]:
    given = [each.name for each in config.input]
    if not given:
        raise InternalError(
            "model configuration must contain at least one input, none were specified."
        )
    return (*given, *sorted(fed_by_scheduler(config)))


def _results(made: Any) -> Results:
    if isinstance(made, torch.Tensor):
        return (made,)
    if isinstance(made, list) and (not made or isinstance(made[0], str)):
        return (made,)
    if isinstance(made, dict):
        # By the names of the config; Triton refuses those.
        return made
    if not isinstance(made, tuple):
        raise TypeError(
            "output must be of type Tensor, List[str] or Tuple containing one of these two types. "
            "It should not be a List / Dictionary of Tensors or a Scalar"
        )
    for place, each in enumerate(made):
        if isinstance(each, list) and each and not isinstance(each[0], str):
            raise TypeError(
                f"output at index {place} must be of type Tensor or List[str], received "
                f"List[{type(each[0]).__name__}]"
            )
    return made


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.nodes():
        yield node
        for block in node.blocks():
            yield from _nodes(block)


def _may_write(node: Any) -> bool:
    """Whether a node may write to a tensor that is there already."""
    if node.kind() in _OPAQUE:
        return True
    schema = node.schema()
    return schema != "(no schema)" and bool(torch._C.parse_schema(schema).is_mutable)  # noqa: SLF001
