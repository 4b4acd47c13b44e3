# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best configurations as model directories: they are served as they are.

Triton: model_analyzer/model_analyzer/triton/model/model_config.py write_config_to_file @63a0fec
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from backends.api.errors import AlreadyExistsError, NotFoundError
from manta_tools.analyze.records import Candidate
from manta_tools.analyze.results.rows import Found
from manta_tools.analyze.space.variants import config_text, load_config, variant

_CONFIG: Final = "config.pbtxt"
# Configs that take the place of config.pbtxt would take that of the variant's too.
_CONFIGS: Final = "configs"
# In the directory of a BLS model's variant; a server takes only numbers for versions.
_REPOSITORY: Final = "repository"


def require_empty(directory: Path, *, is_replaced: bool) -> None:
    """Check that winners can be written, before a long run.

    Raises:
        AlreadyExistsError: The directory holds something that must not be replaced.
    """
    if directory.is_dir() and any(directory.iterdir()) and not is_replaced:
        raise AlreadyExistsError(
            f"output model repository '{directory}' is not empty, expected an empty or a new "
            "folder; give another --output-model-repository-path, or "
            "--override-output-model-repository to have models of the same names replaced"
        )


def write_winner(
    found: Found, candidate: Candidate, repositories: Sequence[Path], directory: Path
) -> list[Path]:
    """Write the models of a candidate, and return their directories.

    Each is named as its variant; steps of ensembles name the variants of the models they call. The
    code of a BLS model calls others by the names that they have: its variant's directory holds a
    repository, too, where it and all that it calls keep their names.
    Files are linked where both lie on one file system, and copied elsewhere.

    Raises:
        NotFoundError: No repository has the directory of a model.
    """
    names = found.names.names(candidate)
    settings = {each.model: each for each in candidate.settings}
    written = []
    for model, setting in settings.items():
        config = variant(found.configs[model], setting, name=names[model], steps=names)
        target = directory / names[model]
        # Whoever serves the folder already sees all of a model or nothing of it.
        fresh = target.with_name(f".{target.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        _write(model, fresh, repositories, config_text(config))
        if _is_bls(found, model):
            shutil.rmtree(fresh / _REPOSITORY, ignore_errors=True)
            for each in _called(found, model):
                own = variant(found.configs[each], settings[each])
                _write(each, fresh / _REPOSITORY / each, repositories, config_text(own))
        shutil.rmtree(target, ignore_errors=True)
        written.append(fresh.rename(target))
    return written


def served_directories(found: Found, candidate: Candidate, directory: Path) -> list[Path]:
    """Return the repositories in which what `write_winner` has written finds what it calls."""
    names = found.names.names(candidate)
    own = [directory / names[each] / _REPOSITORY for each in found.models if _is_bls(found, each)]
    is_all = len(own) == len(found.models)
    return own if is_all else [directory, *own]


def _is_bls(found: Found, model: str) -> bool:
    return bool(found.composing.get(model)) and not found.configs[model].has_ensemble_scheduling


def _called(found: Found, model: str) -> list[str]:
    """Return a model, what it calls, and what these call."""
    models = [model]
    for each in models:
        models += [called for called in found.composing.get(each, ()) if called not in models]
    return models


def _write(model: str, target: Path, repositories: Sequence[Path], config: str) -> None:
    source = next((each / model for each in repositories if (each / model).is_dir()), None)
    if source is None:
        listed = ", ".join(map(str, repositories))
        raise NotFoundError(
            f"model '{model}' has no directory in {listed}, expected one there whose files the "
            "variant takes; give --model-repository"
        )
    shutil.copytree(
        source,
        target,
        copy_function=_link,
        ignore=lambda folder, names: (
            {_CONFIG, _CONFIGS} & set(names) if Path(folder) == source else set()
        ),
    )
    (target / _CONFIG).write_text(config)


def _link(source: str, target: str) -> object:
    with suppress(OSError):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


def best_candidates(found: Found, count: int) -> list[Candidate]:
    """Return the best candidates, the best first."""
    best = found.judge.best_by_candidate(found.measured)
    return [each.trial.candidate for each in best[:count]]


def winning_configs(found: Found, candidate: Candidate) -> Mapping[str, str]:
    """Return the configs of a candidate, as JSON by model."""
    return {
        setting.model: load_config(variant(found.configs[setting.model], setting))
        for setting in candidate.settings
    }
