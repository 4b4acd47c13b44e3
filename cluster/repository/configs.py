# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The config of a model, what its directory tells where that says nothing, and its labels.

Triton: core/src/model_repository_manager/model_repository_manager.cc @73aad7c
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
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
# Where there are more models, all that is kept is dropped.
_MOST_KEPT: Final = 1 << 15


@dataclass(slots=True, eq=False)
class _Kept:
    """A model's config as it was read last; polls read the same text again and again.

    Attributes:
        digest: Digest of the text.
        written: The parsed text; None until it was read twice.
        completed: ``written`` with its defaults; None until that was asked for.
        files: The version's files by which it was completed.
    """

    digest: bytes
    written: ModelConfig | None = None
    completed: ModelConfig | None = None
    files: Mapping[str, bool] | None = None


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
        # By the path of the model's directory. A model is read by one thread at a time.
        self._kept: dict[str, _Kept] = {}

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
        digest, kept = blake2b(content, digest_size=16).digest(), self._kept.get(place.path)
        if kept is not None and kept.digest == digest:
            if kept.written is None:
                kept.written = _parsed(content, path)
            return kept.written, entry
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[place.path] = _Kept(digest)
        return _parsed(content, path), entry

    def complete(
        self, name: str, config: ModelConfig, place: Place, entries: Sequence[DirectoryEntry]
    ) -> ModelConfig:
        """Return a config with its name, its backend and its defaults, checked without a backend.

        Raises:
            TritonError: The config is wrong, or of another model.
        """
        files, kept = first_version(place, entries), self._kept.get(place.path)
        if kept is None or kept.written is not config:
            return self._completed(name, config, files)
        if kept.completed is None or kept.files != files:
            kept.completed, kept.files = self._completed(name, config, files), files
        return kept.completed

    def _completed(
        self, name: str, config: ModelConfig, files: dict[str, bool] | None
    ) -> ModelConfig:
        if not config.name:
            config = edit(config, lambda message: setattr(message, "name", name))
        config = normalise_defaults(infer_backend(config, files))
        validate_before_auto_complete(config)
        if not self._auto_complete:
            validate_tensors(config)
        if config.name != name:
            raise InvalidArgumentError(
                f"unexpected directory name '{name}' for model '{config.name}', directory name "
                "must equal model name"
            )
        return config


def _parsed(content: bytes, path: str) -> ModelConfig:
    try:
        return parse_pbtxt(content.decode(), path)
    except UnicodeDecodeError as error:
        raise InternalError(
            f"failed to read text proto from {path}: byte {error.start} is not UTF-8"
        ) from None


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
