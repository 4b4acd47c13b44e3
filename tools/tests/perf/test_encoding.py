# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""What the clients encode is what the server's codecs understand."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.bytes_tensor import serialize_bytes
from backends.api.datatypes import DATATYPES
from backends.api.model_config import ModelInput
from deployments.grpc.codec.request import RequestDecoder
from deployments.http.codec.infer_request import InferDecoder
from manta_tools.perf.clients.grpc_encoding import GrpcEncoder, id_message
from manta_tools.perf.clients.http_encoding import encode_http, mismatch_http
from manta_tools.perf.clients.payload import Form, Place, Places
from manta_tools.perf.data.generated import Recipe, generate
from manta_tools.perf.data.model import Model, Tensor
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.options.values import RequestParameter
from tests.support.http_infer_requests import Served

PLACES = Places()


def new_model(datatype="INT32", **traits):
    tensor = Tensor("x", datatype, (3,))
    return Model("m", "", (tensor,), (Tensor("y", datatype, (3,)),), max_batch_size=4, **traits)


def one_row(model, seed=0):
    return generate(model, 2, Recipe(string_length=6, seed=seed)).streams[0][0]


def http_parts(form, row, places=PLACES, part=None):
    wire = encode_http(form, "host:1", row, places, part).wire
    head, _, body = wire.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert int(fields["Content-Length"]) == len(body)
    length = fields.get("Inference-Header-Content-Length")
    return head.decode().split("\r\n")[0], fields, body, int(length) if length else None


@given(st.sampled_from(sorted(DATATYPES)), st.booleans(), st.integers(0, 99))
def test_the_http_codec_reads_what_was_encoded(datatype, is_json, seed):
    if is_json and datatype in ("FP16", "BF16"):
        # Not in JSON; Triton refuses them.
        return
    model = new_model(datatype)
    row = one_row(model, seed)
    form = Form(model, is_json_input=is_json)
    first, _, body, length = http_parts(form, row)
    assert first == "POST /v2/models/m/infer HTTP/1.1"
    served = Served(ModelInput("x", datatype, (3,)))
    request = InferDecoder().decode(memoryview(body), length, served).request
    assert request.inputs[0].shape == (2, 3)
    assert bytes(request.inputs[0].data) == row.inputs["x"].raw


@given(st.sampled_from(sorted(DATATYPES)), st.integers(0, 99))
def test_the_grpc_codec_reads_what_was_encoded(datatype, seed):
    model = new_model(datatype)
    row = one_row(model, seed)
    encoder = GrpcEncoder(Form(model), asks_for_final=False)
    part = SequencePart(7, True, False)
    payload = encoder.encode(row, PLACES, part)
    request = RequestDecoder().decode(payload.wire + id_message("n1")).build(1)
    assert (request.model_name, request.id) == ("m", "n1")
    assert bytes(request.inputs[0].data) == row.inputs["x"].raw
    assert request.correlation_id == 7


def test_a_version_is_in_the_path():
    model = Model("a/b", "3", (), ())
    first, *_ = http_parts(Form(model), one_row(new_model()))
    assert first == "POST /v2/models/a%2Fb/versions/3/infer HTTP/1.1"


def test_sequences_are_parameters_over_http():
    model = new_model()
    _, _, body, length = http_parts(Form(model), one_row(model), part=SequencePart(5, False, True))
    assert json.loads(body[:length])["parameters"] == {
        "sequence_id": 5,
        "sequence_start": False,
        "sequence_end": True,
    }


def test_headers_are_sent():
    model = new_model()
    _, fields, *_ = http_parts(Form(model, headers=(("X-Key", "secret"),)), one_row(model))
    assert fields["X-Key"] == "secret"


def test_tensors_in_shared_memory_are_named_not_sent():
    model = new_model()
    places = Places({"x": Place("in", 64, 24)}, {"y": Place("out", 0, 100)})
    _, _, body, length = http_parts(Form(model), one_row(model), places)
    assert length is None
    header = json.loads(body)
    assert header["inputs"][0]["parameters"] == {
        "shared_memory_region": "in",
        "shared_memory_byte_size": 24,
        "shared_memory_offset": 64,
    }
    assert header["outputs"][0]["parameters"]["shared_memory_region"] == "out"
    payload = GrpcEncoder(Form(model), asks_for_final=False).encode(one_row(model), places, None)
    assert len(payload.wire) < 200


def test_parameters_of_every_request_are_encoded_once():
    model = new_model()
    parameters = (RequestParameter("a", True), RequestParameter("b", 3), RequestParameter("c", "d"))
    encoder = GrpcEncoder(Form(model, parameters=parameters), asks_for_final=True)
    row = one_row(model)
    first, second = encoder.encode(row, PLACES, None), encoder.encode(row, PLACES, None)
    assert first.wire is second.wire
    request = RequestDecoder().decode(first.wire).build(1)
    assert {"a": True, "b": 3, "c": "d"}.items() <= request.parameters.items()


def answer(outputs, tail=b""):
    text = json.dumps({"outputs": outputs}).encode()
    head = f"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: {len(text)}".encode()
    return head, text + tail


def test_an_answer_that_is_as_expected_is_no_mismatch():
    raw = np.arange(3, dtype=np.int32).tobytes()
    binary = {"name": "y", "datatype": "INT32", "parameters": {"binary_data_size": 12}}
    texts = {"name": "z", "datatype": "BYTES", "data": ["a", "bc"]}
    numbers = {"name": "n", "datatype": "INT32", "data": [[0, 1, 2]]}
    expected = {"y": raw, "z": serialize_bytes(["a", "bc"]), "n": raw}
    assert mismatch_http(expected, *answer([binary, texts, numbers], raw)) == ""


@pytest.mark.parametrize(
    ("outputs", "tail", "part"),
    [
        ([], b"", "Output doesn't match expected output: 'y' is missing"),
        (
            [{"name": "y", "datatype": "INT8", "parameters": {"binary_data_size": 2}}],
            b"\x01\x02",
            "Output doesn't match expected output: 'y' has 2 bytes, expected 1",
        ),
        (
            [{"name": "y", "datatype": "INT8", "data": [9]}],
            b"",
            "Output doesn't match expected output: 'y' has 1 bytes, expected 1 of other contents",
        ),
        ([{"datatype": "INT8"}], b"", "the answer cannot be read"),
    ],
)
def test_an_answer_that_is_not_says_how(outputs, tail, part):
    assert part in mismatch_http({"y": b"\x01"}, *answer(outputs, tail))
