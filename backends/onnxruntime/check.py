# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks an ONNX model's file and config without ONNX Runtime."""

from dataclasses import replace
from pathlib import Path

from backends.api.backend import CheckedFiles, LoadContext
from backends.api.errors import InternalError, TritonError
from backends.api.model_config import ModelConfig
from backends.framework import auto_complete as completion
from backends.framework.files import operator_libraries
from backends.framework.onnx_file import OnnxFile, read_model_file
from backends.framework.signature import Signature
from backends.framework.validation import validate
from backends.onnxruntime.providers import OPENVINO, wanted_providers
from backends.onnxruntime.settings import model_path, read_settings
from backends.onnxruntime.signature import RULES

_RUNTIME = "whether ONNX Runtime has the graph's operators"
_INFERRED = "dimensions of outputs that ONNX Runtime infers from the graph"


def check_files(context: LoadContext, *, auto_complete: bool) -> CheckedFiles:
    """Compare config and file; see `backends.api.backend.CheckFiles`."""
    path = model_path(context)
    file = read_model_file(path, context.config.name)
    _check_weights(path, context.config.name, file)
    operator_libraries(context)
    config, left_open = context.config, [_RUNTIME]
    is_complete = True
    if auto_complete and not completion.is_complete(config):
        config = completion.completed(config, file.signature, context.backend_config)
        is_complete = all(
            info.is_known for info in (*file.signature.inputs, *file.signature.outputs)
        )
    context = replace(context, config=config)
    if context.kind == "CPU":
        wanted_providers(context, path, {OPENVINO})
    read_settings(context)
    if not _agrees(config, file.signature):
        left_open.append(_INFERRED)
    return CheckedFiles(config, is_complete, tuple(left_open))


def _check_weights(path: str, model: str, file: OnnxFile) -> None:
    for name in file.external:
        if not Path(path).with_name(name).exists():
            raise InternalError(
                f"failed to load model '{model}': '{path}' has weights in the file '{name}' beside "
                "it, which is not there"
            )


def _agrees(config: ModelConfig, signature: Signature) -> bool:
    """Whether config and file agree; False when that depends on what the runtime infers."""
    try:
        validate(config, signature, RULES)
    except TritonError:
        # A runtime may know a dimension of an output that the file does not number.
        known = tuple(
            replace(info, shape=None) if -1 in (info.shape or ()) else info
            for info in signature.outputs
        )
        validate(config, replace(signature, outputs=known), RULES)
        return False
    return True
