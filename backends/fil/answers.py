# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a forest's scores say: a class, the probabilities of classes, or the scores themselves.

Triton: fil_backend/src/tl_model.h TreeliteModel::predict
"""

from typing import Any

import numpy as np

from backends.fil.forest import ForestInfo
from backends.fil.parameters import Parameters
from backends.framework.inputs import Array


class Answers:
    """Turns scores into the output ``output__0``.

    Args:
        info: The forest's header.
        parameters: The config's; ``is_classifier`` is set.
        dtype: Of the answers.
        width: Numbers a row that the config asks for; 0 where it leaves that open.
    """

    def __init__(
        self, info: ForestInfo, parameters: Parameters, dtype: np.dtype[Any], width: int
    ) -> None:
        self._dtype = dtype
        # Rounded first, so that a probability is compared as it would be answered.
        self._threshold = dtype.type(parameters.threshold)
        one_column = info.class_count == 1
        if not parameters.is_classifier:
            self._convert = self._scores
        elif not parameters.predict_proba:
            self._convert = self._is_above if one_column else self._best
        else:
            self._convert = self._both if one_column and width != 1 else self._scores

    def of(self, scores: Array) -> Array:
        """Return ``[rows, width]``, given ``[rows, classes]`` of any float type."""
        return self._convert(scores.astype(self._dtype, copy=False))

    def _scores(self, scores: Array) -> Array:
        return scores

    def _best(self, scores: Array) -> Array:
        best: Array = scores.argmax(axis=1, keepdims=True)
        return best.astype(self._dtype)

    def _is_above(self, scores: Array) -> Array:
        is_above: Array = scores > self._threshold
        return is_above.astype(self._dtype)

    def _both(self, scores: Array) -> Array:
        return np.concatenate((1 - scores, scores), axis=1)
