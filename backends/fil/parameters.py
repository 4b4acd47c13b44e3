# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the parameters of a config ask of a forest.

Triton: fil_backend/src/shared_state.h RapidsSharedState::load; rapids_triton
cpp/include/rapids_triton/model/shared_state.hpp SharedModelState::get_config_param
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig
from backends.fil.formats import FORMATS

logger = logging.getLogger(__name__)

DEFAULT_THRESHOLD = 0.5
_DEFAULT_FORMAT = "xgboost"
_BOOLEANS = {"true": True, "false": False}

# Names of releases before 25.09, and what took their place.
_RENAMED = {"algo": "layout", "threads_per_tree": "chunk_size", "output_class": "is_classifier"}
_REMOVED = ("storage_type", "blocks_per_sm")
_LAYOUTS = frozenset({"depth_first", "breadth_first", "layered", "layered_children_together"})


@dataclass(frozen=True, slots=True)
class Parameters:
    """A config's parameters, checked.

    Attributes:
        model_type: A key of `backends.fil.formats.FORMATS`.
        is_classifier: Whether answers are classes; None when the config does not say.
        predict_proba: Whether a classifier answers with a probability of each class instead.
        threshold: The probability above which a binary classifier answers 1.
        allow_unknown_field: Whether XGBoost's JSON may hold fields that Treelite does not know.
        thread_count: Threads to compute with; 0 leaves it to the instance.
    """

    model_type: str = _DEFAULT_FORMAT
    is_classifier: bool | None = None
    predict_proba: bool = False
    threshold: float = DEFAULT_THRESHOLD
    allow_unknown_field: bool = False
    thread_count: int = 0


def read_parameters(config: ModelConfig) -> Parameters:
    """Read the parameters of a config.

    Raises:
        InternalError: A flag is neither ``true`` nor ``false``.
        InvalidArgumentError: The threshold is no number.
        UnsupportedError: The model type is no format that is read here.
    """
    given = config.parameters
    model_type = given.get("model_type", _DEFAULT_FORMAT)
    if model_type not in FORMATS:
        raise UnsupportedError(
            f"{model_type} not recognized as a valid serialization format. Model '{config.name}' "
            f"has parameter model_type '{model_type}', expected one of {', '.join(FORMATS)}"
        )
    return Parameters(
        model_type=model_type,
        is_classifier=_is_classifier(config),
        predict_proba=bool(_flag(config, "predict_proba")),
        threshold=_threshold(config),
        allow_unknown_field=bool(_flag(config, "xgboost_allow_unknown_field")),
        thread_count=max(0, _integer(config, "cpu_nthread")),
    )


def names_classifier(parameters: Mapping[str, str]) -> bool:
    """Whether the parameters say, by either name, if the model is a classifier."""
    return "is_classifier" in parameters or parameters.get("output_class") in _BOOLEANS


def warn_of_ignored(config: ModelConfig) -> None:
    """Log which parameters of the config have no effect, or another name by now."""
    given = {key: value for key, value in config.parameters.items() if value}
    notes = [
        f"The `{old}` parameter has been removed in 25.09 release. Use `{new}` instead."
        for old, new in _RENAMED.items()
        if old in given
    ]
    notes += [
        f"The `{name}` parameter has been removed in 25.09 release."
        for name in _REMOVED
        if name in given
    ]
    if given.get("use_experimental_optimizations") == "true":
        notes.append("use_experimental_optimizations option is deprecated and has no effect.")
    layout = given.get("layout", "depth_first")
    if layout not in _LAYOUTS:
        notes.append(f"Unknown nvForest layout name: {layout}, which has no effect on CPUs.")
    for note in notes:
        logger.warning("%s (model '%s')", note, config.name)


def _is_classifier(config: ModelConfig) -> bool | None:
    # The old name wins, and what it does not understand it ignores, as upstream.
    old = _BOOLEANS.get(config.parameters.get("output_class", ""))
    return _flag(config, "is_classifier") if old is None else old


def _flag(config: ModelConfig, name: str) -> bool | None:
    """Return a flag; None when it is not set."""
    text = config.parameters.get(name)
    if text is None:
        return None
    if text not in _BOOLEANS:
        raise InternalError(
            f"Expected 'true' or 'false' for parameter '{name}', got: '{text}' "
            f"(model '{config.name}')"
        )
    return _BOOLEANS[text]


def _threshold(config: ModelConfig) -> float:
    text = config.parameters.get("threshold")
    try:
        return DEFAULT_THRESHOLD if text is None else float(text)
    except ValueError:
        raise InvalidArgumentError(
            f"Bad input for parameter threshold: model '{config.name}' has '{text}', expected a "
            "number"
        ) from None


def _integer(config: ModelConfig, name: str) -> int:
    """Return a number, or, as upstream, 0 for what is none."""
    text = config.parameters.get(name, "0")
    try:
        return int(text)
    except ValueError:
        logger.warning(
            "model '%s' has parameter %s '%s', expected an integer; it is ignored",
            config.name,
            name,
            text,
        )
        return 0
