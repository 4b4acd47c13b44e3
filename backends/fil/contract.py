# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a forest: their names are fixed, their widths follow from it and its parameters.

Triton: fil_backend/src/model.h RapidsModel::predict; docs/model_config.md; docs/explainability.md
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.config.pbtxt import edit
from backends.fil.forest import ForestInfo
from backends.fil.parameters import Parameters, names_classifier
from backends.framework.auto_complete import default_max_batch_size, filled
from backends.framework.signature import Signature, TensorInfo
from backends.framework.validation import config_name

INPUT = "input__0"
SCORES = "output__0"
SHAPLEY = "treeshap_output"


@dataclass(frozen=True, slots=True)
class Widths:
    """How many numbers a row may have in each output: the first is what auto-completion writes."""

    scores: tuple[int, ...]
    shapley: int


def widths(info: ForestInfo, parameters: Parameters) -> Widths:
    """Return the widths of a forest's outputs."""
    is_classifier = parameters.is_classifier
    if is_classifier and not parameters.predict_proba:
        scores: tuple[int, ...] = (1,)
    elif is_classifier and info.class_count == 1:
        # Both probabilities, or only that of class 1.
        scores = (2, 1)
    else:
        scores = (info.class_count,)
    return Widths(scores, info.class_count * (info.feature_count + 1))


def is_complete(config: ModelConfig) -> bool:
    """Whether auto-completion has nothing to add, so that the model need not be read."""
    return bool(config.input and config.output and names_classifier(config.parameters))


def completed(
    config: ModelConfig,
    parameters: Parameters,
    info: ForestInfo,
    backend_config: Mapping[str, str],
) -> ModelConfig:
    """Return the config with missing tensors and parameters filled in; upstream fills in nothing.

    A config without tensors gets a batch size, too; one with some keeps its own, even 0.

    Raises:
        InvalidArgumentError: ``default-max-batch-size`` is no number.
    """
    size = config.max_batch_size
    if not size and not config.input and not config.output:
        size = default_max_batch_size(backend_config)
    signature = Signature(
        (TensorInfo(INPUT, "FP32", (-1, info.feature_count)),),
        (TensorInfo(SCORES, "FP32", (-1, widths(info, parameters).scores[0])),),
    )

    def change(message: Any) -> None:
        message.parameters["model_type"].string_value = parameters.model_type
        text = "true" if parameters.is_classifier else "false"
        message.parameters["is_classifier"].string_value = text

    return edit(filled(config, signature, size), change)


def validate(config: ModelConfig, parameters: Parameters, info: ForestInfo) -> None:
    """Check that a complete config describes the forest.

    Upstream finds names out at the first request, and takes a wrong width for the memory's size.

    Raises:
        InternalError: A name is not the one the backend has.
        InvalidArgumentError: A datatype or a width differs.
    """
    allowed = widths(info, parameters)
    if [given.name for given in config.input] != [INPUT]:
        names = ", ".join(f"'{given.name}'" for given in config.input) or "none"
        raise InternalError(
            f"unknown request input name {INPUT}: model '{config.name}' has inputs {names} in its "
            f"config, backend 'fil' has exactly one, '{INPUT}'"
        )
    _check(config, config.input[0], info, (info.feature_count,), "features")
    names_of_outputs = {output.name for output in config.output}
    if SCORES not in names_of_outputs:
        raise InternalError(
            f"No output with name {SCORES} in configuration. Model '{config.name}' needs one"
        )
    for output in config.output:
        if output.name == SCORES:
            _check(config, output, info, allowed.scores, "scores")
        elif output.name == SHAPLEY:
            _check(config, output, info, (allowed.shapley,), "Shapley values")
        else:
            raise InternalError(
                f"model '{config.name}' has output '{output.name}' in its config, backend 'fil' "
                f"has '{SCORES}' and, for Shapley values, '{SHAPLEY}'"
            )


def _check(
    config: ModelConfig,
    entry: ModelInput | ModelOutput,
    info: ForestInfo,
    allowed: tuple[int, ...],
    what: str,
) -> None:
    datatypes = ("FP32", "FP64") if info.datatype == "FP64" else ("FP32",)
    if entry.datatype not in datatypes:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', tensor '{entry.name}' has datatype "
            f"{config_name(entry.datatype)} in the config, expected "
            f"{' or '.join(map(config_name, datatypes))}"
        )
    dims = entry.dims if entry.reshape is None else entry.reshape
    row = dims
    if config.max_batch_size == 0 and len(dims) > 1:
        row = dims[1:]
    if -1 not in row and prod(row) not in allowed:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', tensor '{entry.name}' has {prod(row)} {what} a "
            f"row (dims {list(dims)}) in the config, the model has "
            f"{' or '.join(map(str, allowed))}"
        )
