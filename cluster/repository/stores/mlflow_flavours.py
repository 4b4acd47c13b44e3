# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shows the artifacts of an MLflow model as a version of a model of a Triton repository. Pure.

MLflow: mlflow/mlflow mlflow/models/model.py Model (the file MLmodel), and save_model of
mlflow/{onnx,tensorflow,keras,pytorch,xgboost,lightgbm}. The flavour ``triton``, a config.pbtxt and
texts beside the model are those of Triton's plugin.

Triton: server/deploy/mlflow-triton-plugin/mlflow_triton/deployments.py _get_copy_paths @main
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from cluster.repository.stores.plain_models import (
    CONFIG_FILE,
    PlainModel,
    plain_model,
    proper,
    rename,
)

MLMODEL_FILE: Final = "MLmodel"
# What MLflow writes beside a model.
_OWN: Final = frozenset(
    {
        MLMODEL_FILE,
        CONFIG_FILE,
        "conda.yaml",
        "python_env.yaml",
        "registered_model_meta",
        "input_example.json",
        "serving_input_example.json",
        "serving_input_payload.json",
    }
)
_FIL: Final = {CONFIG_FILE: b'backend: "fil"\n'}
_SKLEARN: Final = (
    "; pickles are not read: convert the model with skl2onnx, or forests with "
    "'python -m backends.fil.convert_sklearn', and log that"
)
EXPECTED: Final = (
    "expected onnx, tensorflow or keras (a SavedModel), pytorch (TorchScript or an exported "
    "program), xgboost, lightgbm (a text file) or triton"
)

Paths = frozenset[str]


def show_artifacts(paths: Iterable[str], mlmodel: bytes) -> PlainModel | str:
    """Return a model as a repository has it, or what is wrong.

    Args:
        paths: Of all files of the artifact.
        mlmodel: Its file ``MLmodel``.
    """
    try:
        said = yaml.safe_load(mlmodel)
        flavours = dict(said["flavors"])
    except (yaml.YAMLError, ValueError, KeyError, TypeError):
        return f"its {MLMODEL_FILE} is no YAML with 'flavors'"
    known = proper(paths)
    problem = ""
    for name, show in _FLAVOURS.items():
        if isinstance(flavours.get(name), Mapping):
            shown = show(flavours[name], known)
            if isinstance(shown, PlainModel):
                return shown
            problem = problem or f"flavour '{name}' {shown}"
    names = ", ".join(f"'{each}'" for each in flavours) or "none"
    hint = _SKLEARN if "sklearn" in flavours else ""
    return problem or f"it has the flavours {names}, {EXPECTED}{hint}"


def _triton(given: Mapping[str, Any], paths: Paths) -> PlainModel | str:
    top = f"{_path(given.get('data'))}/"
    below = {path.removeprefix(top): path for path in paths if path.startswith(top)}
    numbers = {each.partition("/")[0] for each in below if "/" in each}
    versions = [int(each) for each in numbers if each.isascii() and each.isdigit()]
    if not versions:
        return f"has no version directory in '{top}'"
    newest = f"{max(versions)}/"
    version = {
        each.removeprefix(newest): path for each, path in below.items() if each.startswith(newest)
    }
    shared = {
        each: path
        for each, path in below.items()
        if not each.partition("/")[0].isdigit() or "/" not in each
    }
    tops = sorted({each.partition("/")[0] for each in version})
    named = [each for each in tops if each.startswith("model.")]
    return PlainModel((named or tops)[0], version, shared)


def _onnx(given: Mapping[str, Any], paths: Paths) -> PlainModel | str:
    path = _path(given.get("data", "model.onnx"))
    if path not in paths:
        return _lacks(path)
    model = plain_model(PurePosixPath(path), "model.onnx", paths)
    # External weights are in files that onnx calls by random names.
    folder = PurePosixPath(path).parent
    weights: dict[str, str | bytes] = {
        each.name: str(each)
        for each in map(PurePosixPath, paths)
        if each.parent == folder
        and str(each) != path
        and each.name not in _OWN
        and each.suffix != ".txt"
    }
    return PlainModel(model.filename, {**weights, **model.version}, model.shared)


def _saved_model(given: Mapping[str, Any], paths: Paths) -> PlainModel | str:
    named = given.get("saved_model_dir") or given.get("data")
    top = _folder(named)
    found = sorted(
        (each for each in paths if each.startswith(top) and f"/{each}".endswith("/saved_model.pb")),
        key=len,
    )
    if not found:
        return f"has no SavedModel in '{_path(named)}': save the model with the save_format 'tf'"
    return plain_model(PurePosixPath(found[0]), "model.savedmodel", paths)


def _pytorch(given: Mapping[str, Any], paths: Paths) -> PlainModel | str:
    top = _folder(given.get("model_data", "data"))
    exported = sorted(each for each in paths if each.startswith(top) and each[-4:] == ".pt2")
    if exported:
        return plain_model(PurePosixPath(exported[0]), "model.pt2", paths)
    path = f"{top}model.pth"
    # Whether it is TorchScript, the backend sees.
    return plain_model(PurePosixPath(path), "model.pt", paths) if path in paths else _lacks(path)


def _forest(given: Mapping[str, Any], paths: Paths) -> PlainModel | str:
    path = _path(given.get("data"))
    if path not in paths:
        return _lacks(path)
    if path.endswith(".json"):
        return plain_model(PurePosixPath(path), "xgboost.json", paths, _FIL)
    filename = rename(PurePosixPath(path).name)
    if not filename:
        return f"has '{path}', a pickle: log the booster, not the estimator of scikit-learn's kind"
    return plain_model(PurePosixPath(path), filename, paths, _FIL)


def _path(given: object) -> str:
    return str(PurePosixPath(given)) if isinstance(given, str) else ""


def _folder(given: object) -> str:
    """Return what paths in a folder of the artifact begin with; nothing for the artifact itself."""
    path = _path(given)
    return "" if path in ("", ".") else f"{path}/"


def _lacks(path: str) -> str:
    return f"names '{path}', which is not there"


_FLAVOURS: Final[Mapping[str, Callable[[Mapping[str, Any], Paths], PlainModel | str]]] = {
    "triton": _triton,
    "onnx": _onnx,
    "tensorflow": _saved_model,
    "keras": _saved_model,
    "pytorch": _pytorch,
    "xgboost": _forest,
    "lightgbm": _forest,
}
