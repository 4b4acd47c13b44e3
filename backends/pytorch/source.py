# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Classes in Python: ``runtime: "model.py"``.

The file has a subclass of ``torch.nn.Module`` that needs no arguments; its weights, when it has
some, are a state_dict in the file of the same name that ends in .pt.

Triton: pytorch_backend/src/model.py
"""

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import is_zipfile

import torch

from backends.api.backend import LoadContext
from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from backends.pytorch.program import Program, Results, device_of, load_failure
from backends.pytorch.script import check_datatypes
from backends.pytorch.settings import Settings
from backends.pytorch.weights import share_weights

logger = logging.getLogger(__name__)


def load_source(context: LoadContext, path: str, settings: Settings) -> Program:
    """Make the class that a file defines, with its weights.

    Raises:
        InternalError: It fails, or there is no such class, or the weights are not its own.
        UnavailableError: Its GPU cannot be used.
    """
    config = context.config
    device = device_of(context)
    check_datatypes(config)
    module, device = _made(context, path, device, settings)
    if settings.compile_options is not None:
        module = torch.compile(module, **settings.compile_options)

    def call(*arguments: Any) -> Results:
        made = module(*arguments)
        return made if isinstance(made, tuple | list | dict) else (made,)

    inputs, outputs = _names(config)
    return Program(call, inputs, {name: i for i, name in enumerate(outputs)}, device, mutates=True)


def _made(
    context: LoadContext, path: str, device: torch.device, settings: Settings
) -> tuple[Any, torch.device]:
    """Return the module with its weights, and where it is."""
    name = context.config.name
    weights = Path(path).with_suffix(".pt")
    try:
        module: Any = module_class(_imported(name, path))()
        if context.kind == "MODEL":
            device = _own_device(module)
        if weights.is_file():
            # Files of PyTorch before 1.6 are no archives and cannot be mapped.
            mmap = is_zipfile(weights)
            module.load_state_dict(torch.load(weights, map_location=device, mmap=mmap))
        else:
            logger.info("Model parameter file not found for '%s'", name)
        module = module.to(device).eval()
    except InternalError:
        raise
    except Exception as error:
        raise load_failure(context, error) from error
    if settings.shares_weights and weights.is_file():
        share_weights(context, str(weights), module.state_dict(keep_vars=True))
    return module, device


def _imported(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InternalError(f"failed to load model '{name}': '{path}' is no Python source")
    module = importlib.util.module_from_spec(spec)
    # torch.compile and pickled classes look for it there.
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def module_class(module: ModuleType) -> type[torch.nn.Module]:
    """Return the class that a file serves: the first by name, of those it defines if it does.

    Triton does not tell those that the file imports from its own.

    Raises:
        InternalError: There is none.
    """
    classes = [
        found
        for name in sorted(vars(module))
        if isinstance(found := getattr(module, name), type) and issubclass(found, torch.nn.Module)
    ]
    own = [each for each in classes if each.__module__ == module.__name__]
    for found in (*own, *classes):
        return found
    raise InternalError(f"Cannot find a subclass of torch.nn.Module in '{module.__file__}'")


def _own_device(module: torch.nn.Module) -> torch.device:
    for parameter in module.parameters():
        return parameter.device
    raise InternalError("Cannot determine model device: the module has no parameters")


def _names(config: ModelConfig) -> tuple[tuple[str, ...], list[str]]:
    """Return what the module is given and what it gives, in the order of the config."""
    inputs = [each.name for each in config.input]
    outputs = [each.name for each in config.output]
    inputs += [name for rule in config.batch_input for name in rule.target_names]
    if config.sequence_batching is not None:
        inputs += [each.name for each in config.sequence_batching.controls]
        inputs += [each.input_name for each in config.sequence_batching.states]
        states = [each.output_name for each in config.sequence_batching.states]
        outputs += [name for name in states if name not in outputs]
    return tuple(inputs), outputs
