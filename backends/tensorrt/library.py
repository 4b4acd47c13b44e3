# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TensorRT itself: found, told what to load, and asked for an engine.

Triton: tensorrt_backend/src/loader.cc LoadPlan, src/tensorrt.cc TRITONBACKEND_Initialize
"""

import ctypes
import importlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError

logger = logging.getLogger(__name__)

# The second runs plans built to be compatible with other versions, and builds none.
_MODULES: Final = ("tensorrt", "tensorrt_lean")
_SEVERITY_LOGGED: Final = {"INTERNAL_ERROR": logging.ERROR, "ERROR": logging.ERROR}
_FLAGS: Final = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


class TensorRT:
    """The module, and a runtime with the plugins that the server was told of.

    Args:
        backend_config: ``--backend-config=tensorrt,...``: ``plugins`` and
            ``version-compatible``; other settings of Triton's have no meaning here.

    Raises:
        ModuleNotFoundError: TensorRT is not installed.
        InvalidArgumentError: A setting is wrong.
        UnavailableError: A plugin's library cannot be loaded.
        InternalError: There is no runtime.
    """

    def __init__(self, backend_config: Mapping[str, str]) -> None:
        self.module = _module()
        self.lines: list[str] = []
        self._logger = self._new_logger()
        _load_plugins(backend_config.get("plugins", ""))
        initialize = getattr(self.module, "init_libnvinfer_plugins", None)
        if initialize is not None:
            initialize(self._logger, "")
        self._runtime = self.module.Runtime(self._logger)
        if self._runtime is None:
            raise InternalError(f"unable to create TensorRT runtime: {self._last_line}")
        text = backend_config.get("version-compatible", "false")
        if text.lower() not in _FLAGS:
            raise InvalidArgumentError(
                f"failed to convert '{text}' to boolean: --backend-config "
                "tensorrt,version-compatible"
            )
        if _FLAGS[text.lower()]:
            # Such a plan brings code of its own.
            self._runtime.engine_host_code_allowed = True

    def engine(self, path: str) -> Any:
        """Return the engine of a plan.

        Raises:
            InternalError: The plan is not for this version of TensorRT or this GPU, or is none.
        """
        self.lines.clear()
        engine = self._runtime.deserialize_cuda_engine(Path(path).read_bytes())
        if engine is None:
            raise InternalError(self._refusal(path))
        return engine

    def _refusal(self, path: str) -> str:
        version = getattr(self.module, "__version__", "of unknown version")
        told = " ".join(self.lines) or "TensorRT says nothing about it"
        advice = (
            "it was built with another version: build it with this one, or as version compatible, "
            "and then serve with --backend-config=tensorrt,version-compatible=true"
            if re.search(r"\bversion\b", told, re.IGNORECASE)
            else "plans are for one version of TensorRT and one kind of GPU"
        )
        return (
            f"unable to create TensorRT engine: {self._last_line}; plan '{path}' was read with "
            f"TensorRT {version}, {advice}"
        )

    @property
    def _last_line(self) -> str:
        return self.lines[-1] if self.lines else "no reason given"

    def _new_logger(self) -> Any:
        lines, base = self.lines, self.module.ILogger

        def log(_: Any, severity: Any, message: str) -> None:
            level = _SEVERITY_LOGGED.get(getattr(severity, "name", ""))
            if level is not None:
                lines.append(message)
                logger.log(level, "TensorRT: %s", message)

        # Their base is known only now.
        return type("Lines", (base,), {"log": log})()


def _module() -> Any:
    for name in _MODULES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name != name:
                raise
    raise ModuleNotFoundError(f"No module named '{_MODULES[0]}'", name=_MODULES[0])


def cuda_runtime() -> Any:
    """Return cuda-python's runtime API.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    return importlib.import_module("cuda.bindings.runtime")


def _load_plugins(paths: str) -> None:
    for path in filter(None, paths.split(";")):
        try:
            # What they register is found by TensorRT's registry in this process.
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise UnavailableError(
                f"Unable to load TensorRT plugin library '{path}': {error}; it is named in "
                "--backend-config=tensorrt,plugins=..."
            ) from None
