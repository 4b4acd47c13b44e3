# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The files a forest can be in, and how each is read.

Triton: fil_backend/src/tl_utils.h load_tl_base_model; src/serialization.h
string_to_serialization; src/model.h RapidsModel::model_file
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import treelite

from backends.api.backend import LoadContext
from backends.api.errors import UnavailableError, UnknownError

_PICKLES = frozenset({".pkl", ".pickle", ".joblib"})
_PICKLE_MAGIC = b"\x80"  # also of what joblib writes uncompressed

_PLACE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")  # when, and where in Treelite's sources

_ZERO_IS_MISSING = 0b0100

logger = logging.getLogger(__name__)

Model = Any  # treelite.Model, whose methods carry no types


def _xgboost_json(path: str, allow_unknown_field: bool) -> Model:
    return treelite.frontend.load_xgboost_model(
        path, format_choice="json", allow_unknown_field=allow_unknown_field
    )


def _xgboost_ubjson(path: str, allow_unknown_field: bool) -> Model:
    return treelite.frontend.load_xgboost_model(
        path, format_choice="ubjson", allow_unknown_field=allow_unknown_field
    )


def _xgboost(path: str, allow_unknown_field: bool) -> Model:
    """Read any of XGBoost's formats.

    Upstream reads its old binary only. XGBoost 3 writes UBJSON by whatever name that has no suffix
    of a format, ``xgboost.model`` among them, and both UBJSON and JSON begin with a brace.
    """
    with Path(path).open("rb") as file:
        head = file.read(2)
    if head[:1] != b"{":
        return treelite.frontend.load_xgboost_model_legacy_binary(path)
    # JSON goes on with a quote or with space; UBJSON with the type or the length of the first key.
    is_json = head[1:2].isspace() or head[1:2] in {b'"', b"}"}
    return (_xgboost_json if is_json else _xgboost_ubjson)(path, allow_unknown_field)


def _lightgbm(path: str, allow_unknown_field: bool) -> Model:
    model = treelite.frontend.load_lightgbm_model(path)
    if _has_zeros_as_missing(path):
        logger.warning(
            "'%s' was trained with zero_as_missing, which Treelite does not know: rows with zeros "
            "or missing values are answered otherwise than by LightGBM",
            path,
        )
    return model


def _has_zeros_as_missing(path: str) -> bool:
    """Whether a split by comparison has LightGBM's missing type Zero, bits 2 and 3 of its type."""
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        return any(
            int(number) & 0b1101 == _ZERO_IS_MISSING
            for line in lines
            if line.startswith("decision_type=")
            for number in line.partition("=")[2].split()
        )


def _checkpoint(path: str, allow_unknown_field: bool) -> Model:
    return treelite.Model.deserialize(path)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: its file's name, and what reads it, given whether to allow unknown fields."""

    filename: str
    read: Callable[[str, bool], Model]


# By the parameter model_type. Ordered: where the parameter is missing, the first file there is.
FORMATS: dict[str, Format] = {
    "xgboost": Format("xgboost.model", _xgboost),
    "xgboost_json": Format("xgboost.json", _xgboost_json),
    "xgboost_ubj": Format("xgboost.ubj", _xgboost_ubjson),
    "lightgbm": Format("model.txt", _lightgbm),
    "treelite_checkpoint": Format("checkpoint.tl", _checkpoint),
}


def found_format(version_dir: str) -> str | None:
    """Return the model type whose file lies in a version directory; None when none does."""
    for model_type, row in FORMATS.items():
        if Path(version_dir, row.filename).is_file():
            return model_type
    return None


def read_model(context: LoadContext, model_type: str, *, allow_unknown_field: bool) -> Model:
    """Read a model's forest.

    Raises:
        UnavailableError: The file is missing.
        UnknownError: It is not of the format, or holds what Treelite cannot represent.
        InvalidArgumentError: ``default_model_filename`` points out of the version directory.
    """
    path = context.model_path(FORMATS[model_type].filename)
    if not Path(path).is_file():
        raise UnavailableError(
            f"Could not open model file {path} of model '{context.config.name}', which has "
            f"parameter model_type '{model_type}'{_advice_on_files(context)}"
        )
    try:
        return FORMATS[model_type].read(path, allow_unknown_field)
    except (treelite.TreeliteError, ValueError, OSError) as error:
        raise UnknownError(
            f"{_one_line(error)} (model '{context.config.name}', file '{path}', model_type "
            f"'{model_type}'){_advice_on_pickle(path)}"
        ) from error


def _advice_on_files(context: LoadContext) -> str:
    folder = Path(context.version_dir)
    other = found_format(context.version_dir)
    if other is not None:
        return f"; there is '{FORMATS[other].filename}': set model_type to '{other}'"
    pickles = sorted(file.name for file in folder.glob("*") if file.suffix in _PICKLES)
    return f"; {_pickle_advice(pickles[0])}" if pickles else ""


def _advice_on_pickle(path: str) -> str:
    with Path(path).open("rb") as file:
        is_pickle = Path(path).suffix in _PICKLES or file.read(1) == _PICKLE_MAGIC
    return f". {_pickle_advice(Path(path).name)}" if is_pickle else ""


def _pickle_advice(name: str) -> str:
    return (
        f"pickles such as '{name}' are not read, because that runs code from the file; make a "
        "checkpoint of what you trust with 'python -m backends.fil.convert_sklearn "
        f"{name} checkpoint.tl' and set model_type to 'treelite_checkpoint'"
    )


def _one_line(error: Exception) -> str:
    return _PLACE.sub("", " ".join(str(error).split()))
