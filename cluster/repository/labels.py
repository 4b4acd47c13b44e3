# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Class labels of a model's outputs."""

from typing import Final

from backends.api.errors import UnsupportedError
from backends.api.model_config import ModelConfig
from cluster.repository.filesystem import FileSystem

MAX_LABELS_BYTES: Final = 64 << 20


def read_labels(
    config: ModelConfig, filesystem: FileSystem, model_dir: str
) -> dict[str, tuple[str, ...]]:
    """Read the label file of each output that names one.

    Raises:
        UnsupportedError: A label file lies outside the model's directory.
        InternalError: A label file cannot be read.

    Triton: core/src/model.cc Model::Init @73aad7c
    """
    labels = {}
    for output in config.output:
        if output.label_filename:
            path = f"{model_dir}/{output.label_filename}"
            if filesystem.escapes(path, model_dir):
                raise UnsupportedError(
                    f"label file path '{path}' for output '{output.name}' in model "
                    f"'{config.name}' is outside model directory"
                )
            text = filesystem.read_bytes(path, MAX_LABELS_BYTES).decode(errors="replace")
            labels[output.name] = tuple(text.removesuffix("\n").split("\n")) if text else ()
    return labels
