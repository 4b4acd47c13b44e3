# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What OpenVINO GenAI cannot open, as far as files tell; imports nothing of it."""

from typing import Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.api.quoting import quote_names
from backends.llm.files import ModelFiles
from backends.llm.openvino.properties import device_properties, scheduler_settings

# Kinds of model that its reader of GGUF files builds, and formats that it does not read.
_ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
_UNREAD_FORMATS: Final = frozenset({"F32", "F64", "BF16"})
_REMEDY: Final = (
    "export the model to a folder with 'optimum-cli export openvino --model FOLDER OUTPUT'"
)


def check_model(context: LoadContext, files: ModelFiles) -> None:
    """Refuse what the engine cannot load; what it says yes to may fail to load for other reasons.

    Raises:
        InvalidArgumentError: The instance is not KIND_CPU, a parameter is wrong, or the file is of
            a kind or format that is not read.
    """
    name = context.config.name
    if context.kind != "CPU":
        raise InvalidArgumentError(
            f"unable to load model '{name}': its instance '{context.instance_name}' has "
            f"KIND_{context.kind}, and the engine 'openvino' takes KIND_CPU only. Intel's GPUs are "
            "chosen by the parameter TARGET_DEVICE, under KIND_CPU"
        )
    scheduler_settings(context)
    device_properties(context)
    if not files.is_gguf:
        return
    if files.architecture not in _ARCHITECTURES:
        raise InvalidArgumentError(
            f"model '{name}' has the file '{files.path}' of the architecture "
            f"'{files.architecture}'; the engine 'openvino' reads GGUF files of "
            f"{quote_names(_ARCHITECTURES)}: {_REMEDY}"
        )
    unread = sorted(files.matrix_formats & _UNREAD_FORMATS)
    if unread:
        raise InvalidArgumentError(
            f"model '{name}' has the file '{files.path}' with weights in {', '.join(unread)}; the "
            "engine 'openvino' reads GGUF files of F16, Q8_0 and Q4_0: convert the file to one of "
            f"them, or {_REMEDY}"
        )
