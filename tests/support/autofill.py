# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Takes the config of a model in a directory the way it takes in a server, in this process.

And tables of upstream's cases as tests: what becomes of configs that are empty, in part or wrong.
"""

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.api.backend import LoadContext, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt, to_pbtxt
from backends.config.validation.model import validate
from backends.registry import backend_for
from cluster.repository.repository import ModelRepository
from tests.support.model_folders import write_folder

ONE_GPU = (0,)

_DEFAULTS = (
    "version_policy { latest { num_versions: 1 } } "
    "optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: true } } "
)


# Name of a case and of its model, its config.pbtxt, what comes of it, and how its model is made.
Row = tuple[Any, ...]


def refused_test(
    make: Callable[..., None],
    rows: Sequence[Row],
    gpu_ids: Sequence[int] = (),
    is_said: Callable[[str, str], bool] = operator.eq,
) -> Callable[..., None]:
    """Return a test of configs that are refused.

    Args:
        make: Writes a model's files; gets its directory, and what a row has beyond three values.
        rows: Each with the text of the refusal.
        gpu_ids: GPUs of the server.
        is_said: Compares the refusal with that text.
    """

    @pytest.mark.parametrize("row", rows, ids=lambda row: row[0])
    def test(tmp_path: Path, row: Row) -> None:
        case, config, says, *given = row
        directory = write_folder(tmp_path, case, config)
        make(directory, *given)
        said = refusal(directory, gpu_ids)
        assert is_said(said, says), said

    return test


def completed_test(
    make: Callable[..., None], rows: Sequence[Row], of: Callable[[str], str] = lambda case: ""
) -> Callable[..., None]:
    """Return a test of configs that are completed.

    Args:
        make: As for `refused_test`.
        rows: Each with the completed config.
        of: Gives what comes before that for a case.
    """

    @pytest.mark.parametrize("row", rows, ids=lambda row: row[0])
    def test(tmp_path: Path, row: Row) -> None:
        case, config, becomes, *given = row
        directory = write_folder(tmp_path, case, config)
        make(directory, *given)
        assert to_pbtxt(completed(directory)) == expected(of(case) + becomes)

    return test


def tensor(side: str, name: str, dims: str, datatype: str, rest: str = "") -> str:
    """Return an input or output of a config."""
    return f'{side} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {rest} }} '


def lacking(side: str, datatype: str, dims: str = "16") -> str:
    """Return two tensors, one without dims and one without datatype."""
    names = [f"{side.upper()}{place}" for place in (0, 1)]
    return (
        f'{side} {{ name: "{names[0]}" data_type: TYPE_{datatype} }} '
        f'{side} {{ name: "{names[1]}" dims: [ {dims} ] }} '
    )


def completed(directory: Path, gpu_ids: Sequence[int] = ONE_GPU, **fields: Any) -> ModelConfig:
    """Return the config that a server with these GPUs makes of a model's.

    Raises:
        TritonError: It refuses the model.
    """
    return _completed(directory, gpu_ids, fields)[0]


def refusal(directory: Path, gpu_ids: Sequence[int] = (), **fields: Any) -> str:
    """Return why a server with these GPUs does not load a model."""
    with pytest.raises(TritonError) as raised:
        served(directory, gpu_ids, **fields)
    return raised.value.message


def served(directory: Path, gpu_ids: Sequence[int] = (), **fields: Any) -> ModelInstance:
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
    directory: Path, gpu_ids: Sequence[int], fields: dict[str, Any]
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
