# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of a model are answered by the versions that its own requests are pinned to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from tests.support.models import context_of, load, write_python_model
from tests.support.recording import execute, recorded

CONFIG = """
name: "probe" backend: "python"
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
SOURCE = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X")
        call = pb_utils.InferenceRequest(
            model_name="m", requested_output_names=["Y"], inputs=[x], request_id=%s)
        return pb_utils.InferenceResponse(call.exec().output_tensors())
"""


class Caller:
    """Answers calls and remembers what they were pinned to."""

    def __init__(self) -> None:
        self.pins: list[dict[str, int] | None] = []

    def call(self, request: InferenceRequest, sink: Any, *, decoupled: bool) -> "Caller":
        del decoupled
        self.pins.append(request.pins)
        output = tensor_from_numpy("Y", np.array([1], np.int32))
        sink.respond(InferenceResponse("m", "1", outputs=[output]), final=True)
        return self

    def cancel(self) -> None:
        """Do nothing: it was answered at once."""


def _called(root: Path, request_id: str, *pins: dict[str, int] | None) -> Caller:
    caller = Caller()
    context = context_of(root, CONFIG, caller=caller)  # type: ignore[arg-type]
    write_python_model(context, SOURCE % request_id)
    instance = load(context)
    inputs = {"X": np.array([4], np.int32)}
    given = [recorded(inputs, id=f"r{at}", pins=each) for at, each in enumerate(pins)]
    execute(instance, *given)
    instance.close()
    return caller


@pytest.mark.parametrize("request_id", ['""', '"other"', "request.request_id()"])
def test_a_call_has_the_pins_of_the_only_request(tmp_path: Path, request_id: str) -> None:
    assert _called(tmp_path, request_id, {"m": 2}).pins == [{"m": 2}]


def test_of_a_batch_the_request_with_the_calls_id_counts(tmp_path: Path) -> None:
    caller = _called(tmp_path, "request.request_id()", {"m": 1}, {"m": 2})
    assert caller.pins == [{"m": 1}, {"m": 2}]


def test_of_a_batch_whose_ids_are_none_of_the_calls_the_first_counts(tmp_path: Path) -> None:
    caller = _called(tmp_path, '"other"', {"m": 1}, {"m": 2})
    assert caller.pins == [{"m": 1}, {"m": 1}]


def test_without_rollouts_nothing_is_pinned(tmp_path: Path) -> None:
    assert _called(tmp_path, '""', None).pins == [None]
