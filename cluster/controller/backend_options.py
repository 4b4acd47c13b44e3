# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's options say of a model's backend."""

from collections.abc import Sequence
from pathlib import Path

from backends.api.model_config import ModelConfig
from backends.lookup import BACKEND_DIRECTORY
from backends.registry import backend_name, python_library
from cluster.options.parsing import ServerOptions


class BackendOptions:
    """``--backend-directory`` and ``--backend-config``.

    Args:
        options: The server's options.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._given = options.backend_config
        self._directory = str(Path(options.backend_directory).absolute())

    def python_library(self, config: ModelConfig, model_dir: str, versions: Sequence[int]) -> str:
        """Return the model.py of a model's Python-based backend; empty for another backend."""
        if config.has_ensemble_scheduling or not versions:
            return ""
        return python_library(config, model_dir, versions[0], self._directory)

    def settings(self, config: ModelConfig, library: str) -> dict[str, str]:
        """Return what a model's backend is told: general settings, then those of its name.

        Settings for the Python backend are for those based on it, too.
        """
        names = [
            "",
            *(["python"] if library else []),
            backend_name(config.backend, config.platform),
        ]
        settings = {BACKEND_DIRECTORY: self._directory}
        for each in names:
            settings |= {key: value for name, key, value in self._given if name == each}
        return settings
