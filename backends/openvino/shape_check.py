# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a model takes the shapes of a request, found out without what was compiled.

An inference that fails over its shapes spoils the compiled model (see
`backends.openvino.inference.InferRequest`), and compiling takes from milliseconds to minutes. To
infer shapes takes OpenVINO a tenth to a third of what the first inference with them does.
"""

from collections.abc import Sequence
from typing import Any, Final

from openvino import PartialShape, opset13

Shapes = tuple[tuple[int, ...], ...]

_MOST_KNOWN: Final = 1024
# Constants with more elements are weights: no shape depends on their values.
_MOST_CONSTANT_ELEMENTS: Final = 1024
# A branch that is not taken may have shapes that do not fit.
_UNCHECKED: Final = frozenset({"If", "Loop", "TensorIterator"})


class ShapeCheck:
    """The operations of a model without its weights, for inferring shapes.

    Args:
        model: An ``openvino.Model``, which is left as it is.

    Raises:
        RuntimeError: OpenVINO cannot infer shapes without the weights.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.clone()
        self._inputs = self._model.get_parameters()
        for node in self._model.get_ops():
            output = node.output(0) if node.get_type_name() == "Constant" else None
            if output is not None and len(output.get_shape()) and _is_large(output):
                weights = opset13.parameter(output.get_shape(), output.get_element_type())
                output.replace(weights.output(0))
                self._model.add_parameters([weights])
        self._model.validate_nodes_and_infer_types()
        self._answers: dict[Shapes, str] = {}

    def check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Check that the model takes inputs of these shapes.

        Raises:
            RuntimeError: It does not, with the words of OpenVINO.
        """
        key = tuple(shapes)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._refusal(key)
            if len(self._answers) >= _MOST_KNOWN:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer
        if answer:
            raise RuntimeError(answer)

    def _refusal(self, shapes: Shapes) -> str:
        for node, shape in zip(self._inputs, shapes, strict=True):
            node.set_partial_shape(PartialShape(list(shape)))
        try:
            self._model.validate_nodes_and_infer_types()
        except RuntimeError as error:
            return str(error)
        return ""


def _is_large(output: Any) -> bool:
    count = 1
    for dim in output.get_shape():
        count *= dim
    return count > _MOST_CONSTANT_ELEMENTS


def shape_check(model: Any) -> ShapeCheck | None:
    """Return the check of a model; None when its shapes are fixed, or not told by its inputs'."""
    if not model.is_dynamic() or any(op.get_type_name() in _UNCHECKED for op in model.get_ops()):
        return None
    try:
        return ShapeCheck(model)
    except RuntimeError:
        return None
