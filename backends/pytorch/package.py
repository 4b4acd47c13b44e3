# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""AOTInductor packages: native code, for one kind of device and of processor.

Loading a package runs it.

Triton: pytorch_backend/src/pt2/model_instance_state.cc, inductor_model.cc
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from backends.api.backend import LoadContext
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from backends.framework.signature import fed_by_scheduler
from backends.pytorch.call_spec import argument_ways, names_by_place, result_ways
from backends.pytorch.naming import in_order
from backends.pytorch.program import Program, Results, device_of, message_of
from backends.pytorch.script import check_datatypes
from backends.pytorch.settings import Settings

# What each level of a processor can do besides its own.
_CAPABILITIES = {"AVX512": {"AVX512", "AVX2"}, "AVX2": {"AVX2"}}
_CHECKED = frozenset({"AVX512", "AVX2"})


def load_package(context: LoadContext, path: str, settings: Settings) -> Program:
    """Load a package.

    Raises:
        UnavailableError: It is for another device or processor, or its GPU cannot be used.
        InternalError: PyTorch cannot load it.
        InvalidArgumentError: The config names tensors that it has not.
    """
    config = context.config
    device = device_of(context)
    prefix = f'failed to create instance "{context.instance_name}" for inductor model '
    try:
        package = torch._inductor.aoti_load_package(  # noqa: SLF001 - its documented name
            path, device_index=device.index if device.type == "cuda" else -1
        )
    except Exception as error:
        raise InternalError(f'{prefix}"{config.name}": {message_of(error)}') from error
    loader = package.loader
    check_target(context, loader.get_metadata(), device.type)
    check_datatypes(config, takes_strings=False)
    arguments, results = (pytree.treespec_loads(spec) for spec in loader.get_call_spec())
    inputs = _places(context, names_by_place(argument_ways(arguments), "INPUT"), "input")
    outputs = _places(context, names_by_place(result_ways(results), "OUTPUT"), "output")
    if len(inputs) != arguments.num_leaves or sorted(inputs.values()) != list(range(len(inputs))):
        raise InvalidArgumentError(
            f'Failed to load model "{context.instance_name}" configuration expects {len(inputs)} '
            f"inputs, but model expects {arguments.num_leaves} inputs."
        )
    run = loader.run

    def call(*tensors: torch.Tensor) -> Results:
        made: Results = run(list(tensors))
        return made

    failure = f'Inductor model instance "{context.instance_name}" execution failure: '
    # What it does with its arguments, nobody tells.
    return Program(call, tuple(in_order(inputs)), outputs, device, mutates=True, failure=failure)


def check_target(context: LoadContext, metadata: Mapping[str, str], device: str) -> None:
    """Check that a package was made for this device and processor.

    Args:
        context: What is loaded.
        metadata: What the package says of itself.
        device: ``cpu`` or ``cuda``.

    Raises:
        UnavailableError: It was made for another.
    """
    where = f"model '{context.config.name}' is an AOTInductor package"
    made_for = metadata.get("AOTI_DEVICE_KEY", device)
    if made_for != device and context.kind != "MODEL":
        raise UnavailableError(
            f"{where} for device '{made_for}', but model instance '{context.instance_name}' is on "
            f"'{device}'; compile it for '{device}', or change the kind of its instance group"
        )
    if made_for != "cpu":
        return
    needed = _CHECKED & set(metadata.get("AOTI_CPU_ISA", "").split())
    level = torch.backends.cpu.get_cpu_capability()
    if not needed <= _CAPABILITIES.get(level, set()):
        raise UnavailableError(
            f"{where} for processors with {', '.join(sorted(needed))}, this one has {level}; "
            "compile it here, or serve the exported program that it was made of"
        )


def _places(context: LoadContext, names: Mapping[str, int], direction: str) -> dict[str, int]:
    config = context.config
    entries: Any = config.input if direction == "input" else config.output
    given = [each.name for each in entries]
    if not given:
        raise InternalError(
            f"model configuration must contain at least one {direction}, none were specified."
        )
    if direction == "input":
        given += sorted(fed_by_scheduler(config))
    elif config.sequence_batching is not None:
        given += [state.output_name for state in config.sequence_batching.states]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidArgumentError(
            f'{direction.capitalize()} "{unknown[0]}" for model instance '
            f'"{context.instance_name}" is not found in model {direction} map.: allowed are '
            f"{', '.join(names)}"
        )
    return {name: names[name] for name in given}
