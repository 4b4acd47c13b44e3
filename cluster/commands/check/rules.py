# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server a repository is checked for has: its options, and perhaps its GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backends.api.backend import CheckedFiles, LoadContext
from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise, normalise_defaults
from backends.config.pbtxt import edit
from backends.config.validation.model import complaints
from backends.lookup import PYTHON_RUNTIME
from backends.registry import check_files, environment_of
from cluster.controller.backend_options import BackendOptions
from cluster.options.parsing import ServerOptions
from cluster.placement.demand import ClusterResources
from cluster.placement.environments import requirements_of, runtime_env_of
from cluster.placement.planner import PoolRequest, plan_pool
from deployments.instance.check import refusals


@dataclass(frozen=True, slots=True)
class VersionCheck:
    """What was found of a version.

    Attributes:
        config: The config that serves, as far as the files tell.
        is_complete: Whether a load ends with its inputs, outputs and batch size.
        refused: What a load would meet, one text each.
        left_open: What only a load finds out.
    """

    config: ModelConfig
    is_complete: bool
    refused: tuple[str, ...] = ()
    left_open: tuple[str, ...] = ()


class Rules:
    """Checks configs and versions as the controller and an instance would.

    Args:
        options: The server's options.
        gpu_count: GPUs of the server; None takes those that a config names as there.
    """

    def __init__(self, options: ServerOptions, gpu_count: int | None = None) -> None:
        self._backends = BackendOptions(options)
        self._gpu_count = gpu_count

    def gpu_ids(self, config: ModelConfig) -> tuple[int, ...]:
        """Return the indices of the GPUs there are for a model."""
        if self._gpu_count is not None:
            return tuple(range(self._gpu_count))
        named = {gpu for group in config.instance_group for gpu in group.gpus if gpu >= 0}
        wanted = any(group.kind == "KIND_GPU" for group in config.instance_group)
        return tuple(sorted(named or {0})) if wanted else ()

    def completed(self, config: ModelConfig) -> ModelConfig:
        """Return a config with every default."""
        return normalise(config, gpu_ids=self.gpu_ids(config))

    def complaints(self, config: ModelConfig, *, tensors: bool = True) -> tuple[str, ...]:
        """Return all that is wrong with a config; ``tensors`` says that those are complete."""
        found = complaints(self.completed(config), gpu_ids=self.gpu_ids(config), tensors=tensors)
        return tuple(dict.fromkeys(found))

    def check_config(
        self, config: ModelConfig, *, auto_complete: bool, left_open: str
    ) -> VersionCheck:
        """Check a version of which only the config is known.

        Args:
            config: The model's config as its repository has read it.
            auto_complete: Whether its backend would complete the config.
            left_open: What is not known.
        """
        is_written = bool(config.input and config.output) or not auto_complete
        refused = self.complaints(config, tensors=is_written)
        return VersionCheck(self.completed(config), is_written, refused, (left_open,))

    def check_version(
        self,
        config: ModelConfig,
        model_dir: str,
        version: int,
        *,
        auto_complete: bool,
        has_contents: bool = True,
    ) -> VersionCheck:
        """Check one version of a model.

        Args:
            config: The model's config as its repository has read it.
            model_dir: Local path of the model's directory.
            version: Version number.
            auto_complete: Whether its backend would complete the config.
            has_contents: Whether files other than texts have their contents there.
        """
        config = self.completed(config)
        is_written = bool(config.input and config.output) or not auto_complete
        refused = [*self.complaints(config, tensors=is_written)]
        library = self._backends.python_library(config, model_dir, (version,))
        if library:
            config = edit(config, lambda message: setattr(message, "runtime", PYTHON_RUNTIME))
        try:
            context = self._context(config, model_dir, version, library)
            checked = check_files(context, auto_complete=auto_complete, has_contents=has_contents)
        except TritonError as error:
            refused.append(error.message)
            checked = CheckedFiles(config, is_complete=is_written)
        refused += _environment(config, model_dir, version, library)
        config = normalise_defaults(checked.config)
        refused += self.complaints(config, tensors=checked.is_complete)
        if checked.is_complete and not refused and has_contents:
            refused += (error.message for error in refusals(config, model_dir))
        return VersionCheck(
            self.completed(config),
            checked.is_complete,
            tuple(dict.fromkeys(refused)),
            checked.left_open,
        )

    def _context(
        self, config: ModelConfig, model_dir: str, version: int, library: str
    ) -> LoadContext:
        settings = self._backends.settings(config, library)
        request = PoolRequest(0, version, model_dir, backend_config=settings)
        spec = plan_pool(config, request, ClusterResources())[0]
        return LoadContext(
            config=config,
            model_dir=model_dir,
            version=version,
            instance_name=spec.instance_name,
            kind=spec.kind,
            device_id=spec.device_id,
            thread_count=spec.thread_count,
            backend_config=settings,
        )


def _environment(config: ModelConfig, model_dir: str, version: int, library: str) -> Iterator[str]:
    try:
        runtime_env_of(config, model_dir, library)
        requirements_of(config, model_dir, version, library)
        environment = environment_of(config, model_dir, library)
        if environment is not None and not Path(environment.path).exists():
            raise InvalidArgumentError(
                f"parameter '{environment.parameter}' of model '{config.name}' names "
                f"'{environment.path}', which is not there"
            )
    except TritonError as error:
        yield error.message
