# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Opens ONNX Runtime sessions as configs ask for.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState::LoadModel
"""

from typing import Any

import onnxruntime

from backends.api.backend import LoadContext
from backends.api.errors import UnavailableError
from backends.onnxruntime.failure import runtime_error
from backends.onnxruntime.options import reading_options, session_options
from backends.onnxruntime.providers import CPU, CUDA, TENSORRT, Provider, wanted_providers
from backends.onnxruntime.settings import model_path


def open_for_reading(context: LoadContext) -> Any:
    """Open a session that only tells the model's signature; cheaper than one that can run.

    Raises:
        UnavailableError: The file, or a library of operators, is missing.
        InternalError: It is no ONNX model this runtime can read.
    """
    return _open(context, model_path(context), reading_options(context), [CPU])


def open_session(context: LoadContext) -> Any:
    """Open a session on the instance's device.

    Raises:
        UnavailableError: A file is missing, or the device or an accelerator cannot be used.
        UnsupportedError: An execution accelerator is asked for that this runtime lacks.
        InvalidArgumentError: A parameter or an accelerator is wrong.
        InternalError: The model cannot be loaded.
    """
    path = model_path(context)
    providers = wanted_providers(context, path, onnxruntime.get_available_providers())
    wanted = [each if isinstance(each, str) else each[0] for each in providers]
    if wanted[0] in (CUDA, TENSORRT):
        # CUDA's libraries may come from PyPI's packages, where no loader looks by itself.
        onnxruntime.preload_dlls()
    session = _open(context, path, session_options(context), providers)
    used = session.get_providers()
    if used[0] != wanted[0]:
        # The runtime falls back to another silently, which would look like a slow device.
        where = f" on GPU {context.device_id}" if context.kind == "GPU" else ""
        raise UnavailableError(
            f"model instance '{context.instance_name}' asked for {wanted[0]}{where} but ONNX "
            f"Runtime fell back to {used[0]}; check the device's driver and the libraries of that "
            "provider, or use KIND_CPU without execution accelerators"
        )
    return session


def _open(context: LoadContext, path: str, options: Any, providers: list[Provider]) -> Any:
    try:
        return onnxruntime.InferenceSession(path, options, providers=providers)
    except Exception as error:
        raise runtime_error(error, f"model '{context.config.name}', file '{path}'") from error
