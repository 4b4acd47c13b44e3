# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every datatype and form of an infer request, with stock clients: what is sent comes back."""

import http.client
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import client_of
from tests.support.server import RunningServer
from tests.support.surface_models import CONFIG_TYPES, VALUES

BOTH = pytest.mark.parametrize("module", [triton_http, triton_grpc], ids=["http", "grpc"])
NOT_IN_JSON = ("FP16", "BF16")
TYPED_FIELD = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def tensor(module: ModuleType, name: str, array: np.ndarray, **how: Any) -> Any:
    datatype = name.partition("_")[2]
    given = module.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array, **how)
    return given


def typed(name: str, datatype: str, array: np.ndarray, **fields: Any) -> Any:
    given = module_input(name, datatype, array.shape)
    getattr(given.contents, TYPED_FIELD[datatype]).extend(array.reshape(-1).tolist())
    return given


def module_input(name: str, datatype: str, shape: Any) -> Any:
    return service_pb2.ModelInferRequest.InferInputTensor(
        name=name, datatype=datatype, shape=list(shape)
    )


def assert_same(got: Any, expected: np.ndarray, datatype: str) -> None:
    assert got is not None
    assert got.shape == expected.shape
    if datatype == "BYTES":
        assert [each.encode() if isinstance(each, str) else each for each in got.tolist()] == (
            expected.tolist()
        )
        return
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


@BOTH
def test_all_datatypes_at_once_keep_every_bit_in_binary(
    surface: RunningServer, module: ModuleType
) -> None:
    inputs = [tensor(module, f"IN_{name}", array) for name, array in VALUES.items()]
    with client_of(surface, module) as client:
        result = client.infer("each_datatype", inputs)
    for name, array in VALUES.items():
        assert_same(result.as_numpy(f"OUT_{name}"), array, name)


@pytest.mark.parametrize("datatype", VALUES)
def test_json_and_binary_are_chosen_per_input_and_per_output(
    surface: RunningServer, datatype: str
) -> None:
    array = VALUES[datatype]
    in_json = datatype not in NOT_IN_JSON
    if datatype == "BYTES":
        array = array[:-1]  # JSON text; the client decodes it
    with client_of(surface, triton_http) as client:
        for input_binary in (True, False) if in_json else (True,):
            for output_binary in (True, False) if in_json else (True,):
                how = {} if input_binary else {"binary_data": False}
                given = tensor(triton_http, f"IN_{datatype}", array, **how)
                other = tensor(triton_http, "IN_INT32", VALUES["INT32"])
                inputs = [given] if datatype == "INT32" else [given, other]
                outputs = [
                    triton_http.InferRequestedOutput(f"OUT_{datatype}", binary_data=output_binary)
                ]
                result = client.infer("each_datatype", inputs, outputs=outputs)
                shown = result.get_output(f"OUT_{datatype}")
                assert ("data" in shown) is not output_binary
                assert len(result.get_response()["outputs"]) == 1
                assert_same(result.as_numpy(f"OUT_{datatype}"), array, datatype)


@pytest.mark.parametrize("datatype", NOT_IN_JSON)
def test_sixteen_bit_floats_have_no_json_form(surface: RunningServer, datatype: str) -> None:
    given = tensor(triton_http, f"IN_{datatype}", VALUES[datatype])
    output = triton_http.InferRequestedOutput(f"OUT_{datatype}", binary_data=False)
    with client_of(surface, triton_http) as client:
        with pytest.raises(InferenceServerException, match=f"sending {datatype} data via JSON"):
            client.infer("each_datatype", [given], outputs=[output])
        body = {
            "inputs": [
                {"name": f"IN_{datatype}", "shape": [1], "datatype": datatype, "data": [1.0]}
            ]
        }
        status, answer = post(surface, "/v2/models/each_datatype/infer", json.dumps(body).encode())
    assert status == 400
    assert f"receiving {datatype} data via JSON is not supported" in json.loads(answer)["error"]


@pytest.mark.parametrize("datatype", TYPED_FIELD)
def test_typed_grpc_contents_arrive_as_raw_ones_do(surface: RunningServer, datatype: str) -> None:
    array = VALUES[datatype]
    request = service_pb2.ModelInferRequest(model_name="each_datatype")
    request.inputs.append(typed(f"IN_{datatype}", datatype, array))
    with client_of(surface, triton_grpc) as client:
        result = triton_grpc.InferResult(client._client_stub.ModelInfer(request))
    assert_same(result.as_numpy(f"OUT_{datatype}"), array, datatype)


@pytest.mark.parametrize("datatype", ["BOOL", "INT64", "FP16", "BF16", "BYTES"])
def test_raw_binary_request_is_the_data_of_the_one_input(
    surface: RunningServer, datatype: str
) -> None:
    with client_of(surface, triton_http) as client:
        client.load_model("only", config=identity_config(datatype), files={"file:1/none": b""})
        array = VALUES[datatype]
        # Triton takes a raw body of BYTES as one element.
        body = b"one\x00element" if datatype == "BYTES" else array.tobytes()
        status, answer = post(
            surface, "/v2/models/only/infer", body, {"Inference-Header-Content-Length": "0"}
        )
        assert status == 200, answer
        size = len(body) + (4 if datatype == "BYTES" else 0)
        assert answer.endswith(body)
        header = json.loads(answer[: len(answer) - size])
        count = 1 if datatype == "BYTES" else array.size
        assert header["outputs"][0]["datatype"] == datatype
        assert header["outputs"][0]["shape"] == [count]


def identity_config(datatype: str) -> str:
    kind = CONFIG_TYPES[datatype]
    dims = [1] if datatype == "BYTES" else [-1]
    return json.dumps(
        {
            "backend": "identity",
            "instance_group": [{"kind": "KIND_CPU"}],
            "input": [{"name": "IN", "data_type": kind, "dims": dims}],
            "output": [{"name": "OUT", "data_type": kind, "dims": dims}],
        }
    )


def post(
    server: RunningServer, path: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.http, timeout=20)
    try:
        connection.request("POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@BOTH
@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BOOL"])
def test_tensors_without_elements_keep_their_shape(
    surface: RunningServer, module: ModuleType, datatype: str
) -> None:
    empty = VALUES[datatype][:0]
    with client_of(surface, module) as client:
        result = client.infer("each_datatype", [tensor(module, f"IN_{datatype}", empty)])
        assert result.as_numpy(f"OUT_{datatype}").shape == (0,)
        if module is triton_http:
            given = tensor(module, f"IN_{datatype}", empty, binary_data=False)
            outputs = [module.InferRequestedOutput(f"OUT_{datatype}", binary_data=False)]
            result = client.infer("each_datatype", [given], outputs=outputs)
            assert result.get_output(f"OUT_{datatype}")["shape"] == [0]


@BOTH
def test_optional_inputs_may_be_left_out_but_not_all_required_ones(
    surface: RunningServer, module: ModuleType
) -> None:
    with client_of(surface, module) as client:
        result = client.infer("each_datatype", [tensor(module, "IN_INT8", VALUES["INT8"])])
        assert result.as_numpy("OUT_INT8").tolist() == VALUES["INT8"].tolist()
        assert result.as_numpy("OUT_INT16") is None
        scores = module.InferInput("VALUES", [1, 3], "FP32")
        scores.set_data_from_numpy(np.zeros((1, 3), np.float32))
        with pytest.raises(InferenceServerException) as refused:
            client.infer("labelled", [scores], request_id="job-7")
        assert "[request id: job-7] unexpected shape for input 'VALUES'" in str(refused.value)
        with pytest.raises(InferenceServerException) as refused:
            client.infer("labelled", [])
        assert "[request id: <id_unknown>] expected 1 inputs but got 0 inputs" in str(refused.value)


@BOTH
def test_a_model_sees_reshaped_inputs_and_clients_its_configured_dims(
    surface: RunningServer, module: ModuleType
) -> None:
    grid = np.arange(32, dtype=np.int32).reshape(2, 4, 4)
    scalar = np.array([[1.5], [-2.5]], dtype=np.float32)
    inputs = [
        module.InferInput("GRID", [2, 4, 4], "INT32"),
        module.InferInput("SCALAR", [2, 1], "FP32"),
    ]
    for each, array in zip(inputs, (grid, scalar), strict=True):
        each.set_data_from_numpy(array)
    with client_of(surface, module) as client:
        result = client.infer("reshaped", inputs)
    assert json.loads(result.as_numpy("SEEN")[0, 0]) == [[2, 2, 8], [2]]
    assert result.as_numpy("FLAT").tolist() == grid.reshape(2, 16).tolist()
    assert result.as_numpy("SAME").tolist() == scalar.tolist()


@BOTH
def test_classes_are_labelled_and_sorted_per_batch_row(
    surface: RunningServer, module: ModuleType
) -> None:
    scores = np.array([[0.25, 4.0, -1.0, 2.0], [np.inf, 0.0, 1.0, -np.inf]], dtype=np.float32)
    given = module.InferInput("VALUES", [2, 4], "FP32")
    given.set_data_from_numpy(scores)
    with client_of(surface, module) as client:
        output = module.InferRequestedOutput("SCORES", class_count=2)
        rows = client.infer("labelled", [given], outputs=[output]).as_numpy("SCORES")
        # More classes than there are is all of them; the last one has no label.
        output = module.InferRequestedOutput("SCORES", class_count=9)
        every = client.infer("labelled", [given], outputs=[output]).as_numpy("SCORES")
    assert rows.tolist() == [
        [b"4.000000:1:bee", b"2.000000:3"],
        [b"inf:0:ant", b"1.000000:2:cat"],
    ]
    assert every.shape == (2, 4)


@BOTH
def test_parameters_headers_and_options_reach_the_model(
    surface: RunningServer, module: ModuleType
) -> None:
    given = module.InferInput("IN", [1], "INT32")
    given.set_data_from_numpy(np.array([1], np.int32))
    custom = {"text": "a b", "count": -3, "flag": True}
    # The Python gRPC client puts ids into a signed parameter.
    sequence_id = 2**63 - 1 if module is triton_grpc else 2**64 - 1
    with client_of(surface, module) as client:
        result = client.infer(
            "echo_parameters",
            [given],
            request_id="r 1",
            sequence_id=sequence_id,
            sequence_start=True,
            priority=3,
            timeout=60_000_000,
            headers={"x-tenant": "blue", "y-hidden": "no"},
            parameters=custom,
        )
        assert (
            result.get_response(**({"as_json": True} if module is triton_grpc else {}))["id"]
            == "r 1"
        )
        seen = json.loads(result.as_numpy("SEEN")[0])
        assert seen == {
            "id": "r 1",
            "correlation_id": sequence_id,
            "timeout": 60_000_000,
            "parameters": {**custom, "x-tenant": "blue"},
        }
        result = client.infer("echo_parameters", [given], sequence_id="session-é")
        assert json.loads(result.as_numpy("SEEN")[0])["correlation_id"] == "session-é"
        with pytest.raises(InferenceServerException, match="reserved"):
            client.infer("echo_parameters", [given], parameters={"triton_x": 1})


def test_serialized_strings_of_any_length_survive(surface: RunningServer) -> None:
    sizes = (0, 1, 255, 65536, 200_000)
    wide = np.array([bytes([byte]) * size for byte, size in enumerate(sizes)], dtype=np.object_)
    for module in (triton_http, triton_grpc):
        with client_of(surface, module) as client:
            result = client.infer("each_datatype", [tensor(module, "IN_BYTES", wide)])
        assert result.as_numpy("OUT_BYTES").tolist() == wide.tolist()
