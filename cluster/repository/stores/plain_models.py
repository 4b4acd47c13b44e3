# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shows a folder with one model file as a model of a Triton repository. Pure: names only.

Triton: core/src/model_config_utils.cc AutoCompleteBackendFields @73aad7c
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from cluster.repository.filesystem import leads_below
from cluster.repository.stores.contracts import StoredFile

# Where a file is shown, and where it lies in the folder, or the content it is given.
Shown = Mapping[str, str | bytes]

CONFIG_FILE: Final = "config.pbtxt"
_FIL: Final[Shown] = {CONFIG_FILE: b'backend: "fil"\n'}
_REQUIREMENTS: Final = "requirements.txt"
_SAVED_MODEL: Final = "saved_model.pb"
# How exporters call the one file that is meant.
_STEMS: Final = frozenset({"model", "openvino_model", "saved_model", "xgboost", "checkpoint"})


@dataclass(frozen=True, slots=True)
class PlainModel:
    """A model as a repository has it.

    Attributes:
        filename: Triton's name of its file in a version's directory.
        version: Files of the version's directory.
        shared: Files of the model's directory.
    """

    filename: str
    version: Shown
    shared: Shown = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Row:
    """A kind of model file: how it is called, and how Triton calls it."""

    pattern: str
    filename: str
    shared: Shown = field(default_factory=dict)
    weights: str = ""


# In the order in which Triton looks for them in a version's directory; forests come last.
_ROWS: Final = (
    _Row(_SAVED_MODEL, "model.savedmodel"),
    _Row("*.graphdef", "model.graphdef"),
    _Row("*.plan", "model.plan"),
    _Row("*.onnx", "model.onnx"),
    _Row("*.xml", "model.xml", weights=".bin"),
    _Row("*.pt", "model.pt"),
    _Row("*.pt2", "model.pt2"),
    _Row("model.py", "model.py"),
    _Row("xgboost.json", "xgboost.json", _FIL),
    _Row("*.ubj", "xgboost.ubj", _FIL),
    _Row("*.xgb", "xgboost.model", _FIL),
    _Row("xgboost.model", "xgboost.model", _FIL),
    _Row("*.lgb", "model.txt", _FIL),
    _Row("*.tl", "checkpoint.tl", _FIL),
)
EXPECTED: Final = (
    "a model.onnx, model.pt, model.pt2, model.plan, model.graphdef, saved_model.pb, OpenVINO .xml "
    "with .bin, xgboost.json, .ubj, .xgb, .lgb, checkpoint.tl or model.py"
)


def made_file(path: str, content: bytes) -> StoredFile:
    """Return what is listed of a file that no store has."""
    digest = sha256(content).hexdigest()
    return StoredFile(path, len(content), digest, sha256=digest)


def rename(filename: str) -> str:
    """Return Triton's name of a model's file; empty for a file that is none."""
    row = _row_of(PurePosixPath(filename))
    return row.filename if row else ""


def find_plain(paths: Iterable[str]) -> PlainModel | str:
    """Find the one model of a folder: of what lies highest, the one called ``model``.

    Args:
        paths: Of all files in the folder.

    Returns:
        The model, or what is wrong.
    """
    all_paths = proper(paths)
    found = [
        (each, row)
        for each in map(PurePosixPath, sorted(all_paths))
        if (row := _row_of(each)) is not None and _has_weights(each, row, all_paths)
    ]
    highest = min((len(each.parts) for each, _ in found), default=0)
    found = [pair for pair in found if len(pair[0].parts) == highest]
    called = [pair for pair in found if pair[0].stem in _STEMS] or found
    called.sort(key=lambda pair: _ROWS.index(pair[1]))
    if not called:
        return f"there is no model file, expected {EXPECTED}"
    path, row = called[0]
    same = [str(each) for each, other in called if other is row]
    if len(same) > 1 or (called is found and len(called) > 1):
        names = ", ".join(f"'{each}'" for each, _ in called)
        return f"there are several model files, {names}: expected one, or one called 'model'"
    return plain_model(path, row.filename, all_paths, row.shared)


def proper(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that are those of files: what else stores may have as keys is left out."""
    return frozenset(filter(leads_below, paths))


def plain_model(
    path: PurePosixPath, filename: str, paths: frozenset[str], shared: Shown | None = None
) -> PlainModel:
    """Show a model file with what belongs to it.

    Args:
        path: The file.
        filename: How Triton calls it.
        paths: Of all files in the folder.
        shared: What the model's directory has, unless a config is there.
    """
    version: dict[str, str | bytes] = {filename: str(path)}
    if path.name == _SAVED_MODEL:
        top = "" if str(path.parent) == "." else f"{path.parent}/"
        kept = ("assets/", "variables/", "assets.extra/")
        version = {
            f"{filename}/{each.removeprefix(top)}": each
            for each in paths
            if each.startswith(top)
            and (each.removeprefix(top).startswith(kept) or "/" not in each.removeprefix(top))
        }
    for each in map(PurePosixPath, paths):
        if each.parent == path.parent and _is_weights(each, path, filename):
            is_ir = filename == "model.xml"
            version["model.bin" if is_ir else each.name] = str(each)
    return PlainModel(filename, version, {**(shared or {}), **_shared(path, paths)})


def _shared(path: PurePosixPath, paths: frozenset[str]) -> dict[str, str | bytes]:
    """Return a config of Triton's beside the model or at the top, with its labels."""
    for folder in (path.parent, PurePosixPath(".")):
        if str(folder / CONFIG_FILE) in paths:
            beside = (each for each in map(PurePosixPath, paths) if each.parent == folder)
            labels = {
                each.name: str(each)
                for each in beside
                if each.suffix == ".txt" and each.name != _REQUIREMENTS and each != path
            }
            return {CONFIG_FILE: str(folder / CONFIG_FILE), **labels}
    return {}


def _row_of(path: PurePosixPath) -> _Row | None:
    return next((row for row in _ROWS if path.match(row.pattern)), None)


def _has_weights(path: PurePosixPath, row: _Row, paths: frozenset[str]) -> bool:
    return not row.weights or str(path.with_suffix(row.weights)) in paths


def _is_weights(each: PurePosixPath, path: PurePosixPath, filename: str) -> bool:
    """Whether a file holds weights of another, as exporters call them."""
    if filename == "model.xml":
        return each == path.with_suffix(".bin")
    if filename != "model.onnx" or each == path:
        return False
    beside = (path.with_suffix(".data"), path.with_suffix(".weights"))
    return each.name.startswith(path.name) or each in beside
