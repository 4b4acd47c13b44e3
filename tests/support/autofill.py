# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Takes the config of a model in a directory the way it takes in a server, in this process."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from backends.api.backend import LoadContext, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt, to_pbtxt
from backends.config.validation.model import validate
from backends.registry import backend_for
from cluster.repository.repository import ModelRepository

ONE_GPU = (0,)

_DEFAULTS = (
    "version_policy { latest { num_versions: 1 } } "
    "optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: true } } "
)


def model_dir(root: Path, name: str, config: str | None) -> Path:
    """Make the directory of a model, with version 1; without a config.pbtxt when it is None."""
    made = root / name
    (made / "1").mkdir(parents=True)
    if config is not None:
        (made / "config.pbtxt").write_text(config)
    return made


def completed(directory: Path, gpu_ids: Sequence[int] = ONE_GPU, **fields: object) -> ModelConfig:
    """Return the config that a server with these GPUs makes of a model's.

    Raises:
        TritonError: It refuses the model.
    """
    return _completed(directory, gpu_ids, fields)[0]


def refusal(directory: Path, gpu_ids: Sequence[int] = (), **fields: object) -> str:
    """Return why a server with these GPUs does not load a model."""
    with pytest.raises(TritonError) as raised:
        served(directory, gpu_ids, **fields)
    return raised.value.message


def served(directory: Path, gpu_ids: Sequence[int] = (), **fields: object) -> ModelInstance:
    """Load a model as a server with these GPUs does.

    Raises:
        TritonError: It refuses the model.
    """
    _, context = _completed(directory, gpu_ids, fields)
    return backend_for(context).load(context)


def expected(text: str) -> str:
    """Return a completed config as it is compared; what every config has is added."""
    return to_pbtxt(parse_pbtxt(text + _DEFAULTS, "expected"))


def _completed(
    directory: Path, gpu_ids: Sequence[int], fields: dict[str, object]
) -> tuple[ModelConfig, LoadContext]:
    model = ModelRepository([str(directory.parent)]).read_model(directory.name)

    def context(config: ModelConfig) -> LoadContext:
        group = config.instance_group[0]
        kind = group.kind.removeprefix("KIND_")
        return LoadContext(config, str(directory), 1, f"{group.name}_0", kind, **fields)

    first = context(normalise(model.config, gpu_ids=gpu_ids))
    config = normalise(backend_for(first).auto_complete(first), gpu_ids=gpu_ids)
    validate(config, gpu_ids=gpu_ids)
    return config, context(config)
