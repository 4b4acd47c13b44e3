# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The config of a model, what its directory tells where that says nothing, and its labels.

Triton: core/src/model_repository_manager/model_repository_manager.cc @73aad7c
"""

from collections.abc import Sequence
from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import infer_backend, normalise_defaults
from backends.config.pbtxt import MAX_CONFIG_BYTES, edit, from_json, parse_pbtxt
from backends.config.validation.model import validate_before_auto_complete, validate_tensors
from cluster.repository.filesystem import DirectoryEntry, FileSystem
from cluster.repository.model_directory import ModelDirectory, Place, first_version

CONFIG_FILE: Final = "config.pbtxt"
CONFIGS_DIRECTORY: Final = "configs"
MAX_LABELS_BYTES: Final = 64 << 20


class ModelConfigs:
    """Reads configs.

    Args:
        name: ``--model-config-name``; empty for config.pbtxt.
        auto_complete: False with ``--disable-auto-complete-config``.

    Raises:
        InvalidArgumentError: ``name`` is no plain name.
    """

    def __init__(self, name: str, *, auto_complete: bool) -> None:
        if "/" in name or "\0" in name:
            raise InvalidArgumentError(
                f"model config name '{name}' must be the name of a file in "
                f"'{CONFIGS_DIRECTORY}' without '.pbtxt', not a path"
            )
        self._name = name
        self._auto_complete = auto_complete

    def read(
        self, directory: ModelDirectory, config_json: str | None
    ) -> tuple[ModelConfig | None, str]:
        """Return the config as written, and the entry of the model's directory it is in.

        Returns:
            None for the config where there is no file and there need not be one.

        Raises:
            TritonError: It cannot be read.
        """
        place = directory.place
        entry, path = CONFIG_FILE, f"{place.path}/{CONFIG_FILE}"
        if self._name:
            alternative = f"{place.path}/{CONFIGS_DIRECTORY}/{self._name}.pbtxt"
            if place.filesystem.exists(alternative):
                entry, path = CONFIGS_DIRECTORY, alternative
        if config_json is not None:
            return from_json(config_json), entry
        if self._auto_complete and not place.filesystem.exists(path):
            return None, entry
        content = place.filesystem.read_bytes(path, MAX_CONFIG_BYTES)
        try:
            return parse_pbtxt(content.decode(), path), entry
        except UnicodeDecodeError as error:
            raise InternalError(
                f"failed to read text proto from {path}: byte {error.start} is not UTF-8"
            ) from None

    def complete(
        self, name: str, config: ModelConfig, place: Place, entries: Sequence[DirectoryEntry]
    ) -> ModelConfig:
        """Return a config with its name, its backend and its defaults, checked without a backend.

        Raises:
            TritonError: The config is wrong, or of another model.
        """
        if not config.name:
            config = edit(config, lambda message: setattr(message, "name", name))
        config = normalise_defaults(infer_backend(config, first_version(place, entries)))
        validate_before_auto_complete(config)
        if not self._auto_complete:
            validate_tensors(config)
        if config.name != name:
            raise InvalidArgumentError(
                f"unexpected directory name '{name}' for model '{config.name}', directory name "
                "must equal model name"
            )
        return config


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
