# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The backend of decision forests, by the name of Triton's: ``fil``.

Triton: fil_backend/src/model.h RapidsModel, src/tl_model.h TreeliteModel::predict
"""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.api.backend import Backend, LoadContext, ModelInstance
from backends.api.datatypes import numpy_dtype
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig, ModelOutput
from backends.fil.answers import Answers
from backends.fil.contract import INPUT, SCORES, SHAPLEY, completed, is_complete, validate
from backends.fil.forest import Forest, read_info, set_probabilities
from backends.fil.formats import found_format, read_model
from backends.fil.parameters import Parameters, read_parameters, warn_of_ignored
from backends.fil.shapley import Explainer
from backends.framework.inputs import Array, Feed, require_all
from backends.framework.instance import TensorInstance


class FilBackend(Backend):
    """Runs forests of XGBoost, LightGBM and scikit-learn."""

    def auto_complete(self, context: LoadContext) -> ModelConfig:
        """Fill in tensors, batch size, and what the file tells of the parameters.

        Raises:
            UnavailableError: The model's file is missing.
            UnknownError: Treelite cannot read it.
            UnsupportedError: It predicts several targets, or its format is unknown.
            InternalError: A flag among the parameters is none.
            InvalidArgumentError: A number among the parameters is none.
        """
        config = context.config
        if is_complete(config):
            return config
        parameters = _parameters(context)
        model = _read(context, parameters)
        info = read_info(model, config.name)
        if parameters.is_classifier is None:
            parameters = replace(parameters, is_classifier=info.is_classifier)
        return completed(config, parameters, info, context.backend_config)

    def load(self, context: LoadContext) -> ModelInstance:
        """Read the forest.

        Raises:
            UnavailableError: The model's file is missing.
            UnknownError: Treelite cannot read it.
            UnsupportedError: It shall run on a GPU, predicts several targets, or has no node
                statistics where Shapley values are wanted.
            InternalError: A flag among the parameters is none, or a tensor has another name.
            InvalidArgumentError: ``is_classifier`` is missing, or config and model differ.
        """
        config = context.config
        if context.kind == "GPU":
            raise UnsupportedError(
                f"KIND_GPU cannot be used in CPU-only build: model '{config.name}' needs "
                "instance_group { kind: KIND_CPU }"
            )
        warn_of_ignored(config)
        parameters = _parameters(context)
        if parameters.is_classifier is None:
            raise InvalidArgumentError(
                f"Required parameter is_classifier not found in config of model '{config.name}'; "
                "set it to 'true' or 'false', or leave auto-completion on"
            )
        model = _read(context, parameters)
        info = read_info(model, config.name)
        validate(config, parameters, info)
        if parameters.predict_proba:
            set_probabilities(model, info)
        forest = Forest(model, info, parameters.thread_count or max(1, context.thread_count))
        explainer = None
        if any(output.name == SHAPLEY for output in config.output):
            explainer = Explainer(model, config.name)
        return FilInstance(context, parameters, forest, explainer)


def _parameters(context: LoadContext) -> Parameters:
    """Return the parameters; a missing model type is that of the file there is."""
    parameters = read_parameters(context.config)
    if "model_type" in context.config.parameters or context.config.default_model_filename:
        return parameters
    return replace(
        parameters, model_type=found_format(context.version_dir) or parameters.model_type
    )


def _read(context: LoadContext, parameters: Parameters) -> Any:
    return read_model(
        context, parameters.model_type, allow_unknown_field=parameters.allow_unknown_field
    )


class FilInstance(TensorInstance):
    """One forest."""

    def __init__(
        self,
        context: LoadContext,
        parameters: Parameters,
        forest: Forest,
        explainer: Explainer | None,
    ) -> None:
        super().__init__(context)
        config = context.config
        self._forest = forest
        self._explainer = explainer
        self._features = forest.info.feature_count
        self._shapes = {output.name: _RowShape(config, output) for output in config.output}
        scores = self._shapes[SCORES]
        self._answers = Answers(forest.info, parameters, scores.dtype, scores.width)

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Predict, or explain, or both.

        Raises:
            InvalidArgumentError: There are no rows, or they have another number of features than
                the forest.
            InternalError: Treelite failed.
        """
        require_all(self._name, (INPUT,), feed)
        rows = self._rows(feed[INPUT])
        return [self._shapes[name].of(self._made(name, rows)) for name in outputs]

    def close(self) -> None:
        """Free what belongs to no Python object."""
        self._forest.close()

    def _rows(self, array: Array) -> Array:
        """Return the input as ``[rows, features]``."""
        expected = array.shape[0] if self._batches else -1
        try:
            return array.reshape(expected, self._features)
        except ValueError:
            raise InvalidArgumentError(
                f"input '{INPUT}' of model '{self._name}' has shape {list(array.shape)}, expected "
                f"{self._features} features a row"
            ) from None

    def _made(self, name: str, rows: Array) -> Array:
        """Return an output as ``[rows, width]``."""
        if name == SHAPLEY and self._explainer is not None:
            return self._explainer.values(rows).astype(self._shapes[name].dtype, copy=False)
        return self._answers.of(self._forest.scores(rows))


class _RowShape:
    """The shape in which an output is answered.

    Dims of 1 are left out, as upstream does: clients get ``[rows]`` for a class.
    """

    def __init__(self, config: ModelConfig, output: ModelOutput) -> None:
        dims = output.dims if output.reshape is None else output.reshape
        is_fixed = config.max_batch_size == 0 and -1 not in dims
        row = dims[1:] if config.max_batch_size == 0 and dims[:1] == (-1,) else dims
        self.dtype: np.dtype[Any] = numpy_dtype(output.datatype)
        self.width = int(np.prod(row)) if -1 not in row else 0
        self._shape = dims if is_fixed else (-1, *(dim for dim in row if dim != 1))

    def of(self, array: Array) -> Array:
        """Return ``[rows, width]`` in the output's shape."""
        return array.reshape(self._shape)
