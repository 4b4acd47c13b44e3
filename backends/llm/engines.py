# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which engine runs a language model; the parameter ``engine`` names it."""

from importlib import import_module
from typing import Final, Protocol, cast

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.quoting import quote_names
from backends.llm.api import Engine
from backends.llm.files import ModelFiles

PARAMETER: Final = "engine"
_USUAL: Final = "openvino"

# Modules with `open_engine`, and with `check_model`, which imports no engine.
_ENGINES: Final = {"openvino": "backends.llm.openvino.engine"}
_CHECKS: Final = {"openvino": "backends.llm.openvino.limits"}


class OpenEngine(Protocol):
    """Loads a model."""

    def __call__(self, context: LoadContext, files: ModelFiles) -> Engine:
        """Load it.

        Raises:
            TritonError: The engine cannot; the message says why, and what to do.
        """


class CheckModel(Protocol):
    """Says whether an engine can load a model."""

    def __call__(self, context: LoadContext, files: ModelFiles) -> None:
        """Refuse files or parameters that the engine cannot load.

        Raises:
            TritonError: It cannot.
        """


def open_engine(context: LoadContext, files: ModelFiles) -> Engine:
    """Load a model with the engine that its config names.

    Raises:
        ModuleNotFoundError: The engine's package is not installed.
        TritonError: There is no such engine, or it cannot load the model.
    """
    check_model(context, files)
    module = import_module(_ENGINES[_name(context.config)])
    return cast("OpenEngine", module.open_engine)(context, files)


def check_model(context: LoadContext, files: ModelFiles) -> None:
    """Refuse what the engine that the config names cannot load, without importing it.

    Raises:
        TritonError: There is no such engine, or it cannot load the model.
    """
    module = import_module(_CHECKS[_name(context.config)])
    cast("CheckModel", module.check_model)(context, files)


def _name(config: ModelConfig) -> str:
    name = config.parameters.get(PARAMETER) or _USUAL
    if name not in _ENGINES:
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter {PARAMETER} '{name}', expected one of "
            f"{quote_names(sorted(_ENGINES))}"
        )
    return name
