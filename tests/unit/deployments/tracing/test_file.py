# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from backends.api.request import Tensor, tensor_from_numpy
from deployments.tracing.file import append_traces, tensor_text, trace_json, write_indexed_traces
from deployments.tracing.record import TracedModel, TracedTensor


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([[0, -1], [2, 3]], np.int8), "0,-1,2,3"),
        (np.array([2**64 - 1], np.uint64), "18446744073709551615"),
        (np.array([0.1, 1e10, np.nan, -np.inf], np.float32), "0.1,1e+10,nan,-inf"),
        (np.array([1.23456789]), "1.23457"),
        (np.array([True, False]), "1,0"),
        (np.array([b"a,b", b'c"d'], np.object_), '"a,b","c"d"'),
        (np.array([1], np.float16), ""),
        (np.zeros((0, 3), np.int32), ""),
    ],
)
def test_tensors_are_shown_as_in_triton(array, text):
    assert tensor_text(tensor_from_numpy("t", array)) == text


def test_a_tensor_whose_bytes_are_elsewhere_is_shown_without_values():
    assert tensor_text(Tensor("t", "INT32", (4,))) == ""


def test_a_trace_has_tritons_elements_in_the_order_of_time():
    model = TracedModel(1, "m", 2, request_id='a"b')
    model.activities = [("REQUEST_START", 20), ("REQUEST_END", 40)]
    model.tensors = [TracedTensor("TENSOR_QUEUE_INPUT", "IN", "INT32", (1, 2), "5,6")]
    child = TracedModel(3, "step", 1, parent_id=1)
    text = trace_json(
        [model, child], [("HTTP_SEND_END", 50), ("HTTP_RECV_START", 10)], has_timestamps=True
    )
    assert json.loads(b"[%s]" % text) == [
        {"id": 1, "model_name": "m", "model_version": 2, "request_id": 'a"b'},
        {"id": 1, "timestamps": [{"name": "HTTP_RECV_START", "ns": 10}]},
        {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 20}]},
        {"id": 1, "timestamps": [{"name": "REQUEST_END", "ns": 40}]},
        {"id": 1, "timestamps": [{"name": "HTTP_SEND_END", "ns": 50}]},
        {
            "id": 1,
            "activity": "TENSOR_QUEUE_INPUT",
            "tensor": {"name": "IN", "data": "5,6", "shape": "1,2", "dtype": "INT32"},
        },
        {"id": 3, "model_name": "step", "model_version": 1, "parent_id": 1},
    ]


def test_without_timestamps_only_tensors_are_left():
    model = TracedModel(1, "m", 1, activities=[("REQUEST_START", 20)])
    model.tensors = [TracedTensor("TENSOR_BACKEND_OUTPUT", "OUT", "INT32", (1,), "5")]
    (element,) = json.loads(
        b"[%s]" % trace_json([model], [("HTTP_RECV_START", 1)], has_timestamps=False)
    )
    assert element["activity"] == "TENSOR_BACKEND_OUTPUT"


def test_a_file_is_an_array_after_every_write(tmp_path: Path):
    path = tmp_path / "t.json"
    for count in range(1, 4):
        append_traces(str(path), b'{"id":%d}' % count, 0)
        assert [each["id"] for each in json.loads(path.read_text())] == [*range(1, count + 1)]


def test_what_an_earlier_server_left_is_overwritten(tmp_path: Path):
    for name in ("t.json", "t.json.0"):
        old = tmp_path / name
        old.write_text('[{"id":1},{"id":2}]')
        os.utime(old, (1000, 1000))
    append_traces(str(tmp_path / "t.json"), b'{"id":3}', 2000)
    assert json.loads((tmp_path / "t.json").read_text()) == [{"id": 3}]
    path = str(tmp_path / "t.json")
    assert [write_indexed_traces(path, b'{"id":4}', 2000) for _ in range(2)] == [0, 1]
    assert json.loads((tmp_path / "t.json.0").read_text()) == [{"id": 4}]


def _append_many(path: str, first: int) -> None:
    for number in range(first, first + 50):
        append_traces(path, b'{"id":%d}' % number, 0)
        write_indexed_traces(path, b'{"id":%d}' % number, 0)


def test_writers_share_a_file(tmp_path: Path):
    path = tmp_path / "t.json"
    # Locks belong to open files, so threads exclude each other as processes do.
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda first: _append_many(str(path), first), (0, 50)))
    assert sorted(each["id"] for each in json.loads(path.read_text())) == [*range(100)]
    indexed = [json.loads(each.read_text())[0]["id"] for each in tmp_path.glob("t.json.*")]
    assert sorted(indexed) == [*range(100)]
