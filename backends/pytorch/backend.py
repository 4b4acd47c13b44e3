# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend.

Triton: pytorch_backend/src/libtorch.cc, src/model.py _get_model_path
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.framework import auto_complete
from backends.framework.files import existing_path, operator_libraries
from backends.framework.torch_file import Format, format_of
from backends.pytorch.exported import load_exported, read_interface, read_program
from backends.pytorch.instance import TorchInstance
from backends.pytorch.package import load_package
from backends.pytorch.program import Program, load_failure
from backends.pytorch.script import load_script
from backends.pytorch.settings import Settings, prepare_process, read_settings
from backends.pytorch.source import load_source

logger = logging.getLogger(__name__)

_PYTHON_RUNTIME = "model.py"
_DEFAULT_FILE = {"torch_aoti": "model.pt2"}

_LOADERS: dict[Format, Callable[[LoadContext, str, Settings], Program]] = {
    Format.SCRIPT: load_script,
    Format.EXPORTED: load_exported,
    Format.PACKAGE: load_package,
    Format.SOURCE: load_source,
}
_COMPILABLE = frozenset({Format.EXPORTED, Format.SOURCE})


class PyTorchBackend(Backend):
    """Runs TorchScript, exported programs, AOTInductor packages and classes, by what a file is."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size and dynamic batching from an exported program.

        Other files do not tell.

        Raises:
            UnavailableError: The model's file, or a library of operators, is missing.
            InternalError: PyTorch cannot read it.
            UnsupportedError: It has tensors of a datatype that V2 lacks.
            InvalidArgumentError: It contradicts max_batch_size.
        """
        config = context.config
        if auto_complete.is_complete(config):
            return config
        path = model_file(context)
        if format_of(path, config.name) is not Format.EXPORTED:
            logger.warning(
                "skipping model configuration auto-complete for '%s': not supported for pytorch "
                "backend, unless the model is an exported program",
                config.name,
            )
            return config
        _load_operators(context)
        signature = read_interface(read_program(context, path), config.name).signature
        return auto_complete.completed(config, signature, context.backend_config)

    def load(self, context: LoadContext) -> ModelInstance:
        """Load a model onto the instance's device.

        Raises:
            UnavailableError: The file or a library of operators is missing, or the device cannot
                be used.
            InternalError: PyTorch cannot load the model, or the config asks for what it lacks.
            InvalidArgumentError: Config and model contradict each other, or a parameter has a value
                that it cannot have.
            UnsupportedError: The file has tensors of a datatype that V2 lacks.
        """
        name = context.config.name
        settings = read_settings(context)
        path = model_file(context)
        form = format_of(path, name)
        load = _LOADERS.get(form)
        if load is None:
            raise InternalError(
                f"failed to load model '{name}': '{path}' holds {form.value}; save the model with "
                "torch.jit.script or torch.export, or give its class in model.py and say runtime: "
                "'model.py'"
            )
        if settings.compile_options is not None and form not in _COMPILABLE:
            raise InvalidArgumentError(
                f"model '{name}' has a parameter for torch.compile, which does not compile "
                f"{form.value}; serve an exported program, or a class with runtime 'model.py'"
            )
        prepare_process(context)
        _load_operators(context)
        return TorchInstance(context, load(context, path, settings), settings)


def _load_operators(context: LoadContext) -> None:
    """Load the operators of a config's libraries into this process; Triton has them preloaded."""
    load: Any = torch.ops.load_library
    for path in operator_libraries(context):
        try:
            load(path)
        except Exception as error:
            raise load_failure(context, error) from error


def model_file(context: LoadContext) -> str:
    """Return the path of a model's file.

    With runtime ``model.py`` that is source before anything else of the name, whose weights it is.

    Raises:
        UnavailableError: There is no such file.
        InternalError: Nor one of the runtime's.
    """
    config = context.config
    if config.runtime != _PYTHON_RUNTIME:
        return existing_path(context, _DEFAULT_FILE.get(config.platform, "model.pt"))
    names = [context.model_path(_PYTHON_RUNTIME)]
    names += [f"{context.version_dir}/{name}" for name in (_PYTHON_RUNTIME, "model.pt")]
    found = next((path for path in names if Path(path).is_file()), None)
    if found is None:
        listed = [Path(path).name for path in names]
        raise InternalError(f"No model found in {context.version_dir}/{listed}")
    source = Path(found).with_suffix(".py")
    if source.is_file() and format_of(found, config.name) is Format.OBJECTS:
        return str(source)
    return found
