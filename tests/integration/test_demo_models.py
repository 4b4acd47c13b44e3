# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stock tritonclient, HTTP and gRPC, sync and aio, against every demo model."""

import json
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio

from tests.support.png import png_of
from tests.support.server import ROOT, RunningServer

DECIMALS = np.array([str(i).encode() for i in range(16)], dtype=np.object_).reshape(1, 16)
IMAGE = np.random.default_rng(7).standard_normal((1, 3, 224, 224)).astype(np.float32)

CASES: dict[str, tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]] = {
    "simple": (
        {
            "INPUT0": np.arange(16, dtype=np.int32).reshape(1, 16),
            "INPUT1": np.ones((1, 16), dtype=np.int32),
        },
        {
            "OUTPUT0": np.arange(1, 17, dtype=np.int32).reshape(1, 16),
            "OUTPUT1": np.arange(-1, 15, dtype=np.int32).reshape(1, 16),
        },
    ),
    "simple_string": (
        {"INPUT0": DECIMALS, "INPUT1": DECIMALS},
        {
            "OUTPUT0": np.array([str(2 * i).encode() for i in range(16)], dtype=np.object_).reshape(
                1, 16
            ),
            "OUTPUT1": np.array([b"0"] * 16, dtype=np.object_).reshape(1, 16),
        },
    ),
    "simple_identity": ({"INPUT0": DECIMALS}, {"OUTPUT0": DECIMALS}),
    "identity_fp32": (
        {"INPUT0": np.arange(150_528, dtype=np.float32)},
        {"OUTPUT0": np.arange(150_528, dtype=np.float32)},
    ),
}
DATATYPES = {"int32": "INT32", "object": "BYTES", "float32": "FP32"}


def _inputs(
    client: ModuleType, arrays: dict[str, np.ndarray[Any, Any]], metadata: Any
) -> list[Any]:
    inputs = []
    ranks = {each["name"]: len(each["shape"]) for each in metadata["inputs"]}
    for name, array in arrays.items():
        shaped = array.reshape((1,) * (ranks[name] - array.ndim) + array.shape)
        tensor = client.InferInput(name, list(shaped.shape), DATATYPES[str(array.dtype)])
        tensor.set_data_from_numpy(shaped)
        inputs.append(tensor)
    return inputs


def _check(result: Any, expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        np.testing.assert_array_equal(result.as_numpy(name).reshape(array.shape), array)


def _metadata(server: RunningServer, model: str) -> Any:
    with triton_http.InferenceServerClient(server.http) as client:
        return client.get_model_metadata(model)


@pytest.mark.parametrize("model", CASES)
def test_http_client_gets_right_answers(server: RunningServer, model: str) -> None:
    arrays, expected = CASES[model]
    with triton_http.InferenceServerClient(server.http) as client:
        _check(
            client.infer(model, _inputs(triton_http, arrays, _metadata(server, model))), expected
        )


@pytest.mark.parametrize("model", CASES)
def test_grpc_client_gets_right_answers(server: RunningServer, model: str) -> None:
    arrays, expected = CASES[model]
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        _check(
            client.infer(model, _inputs(triton_grpc, arrays, _metadata(server, model))), expected
        )


@pytest.mark.parametrize("model", CASES)
async def test_http_aio_client_gets_right_answers(server: RunningServer, model: str) -> None:
    arrays, expected = CASES[model]
    client = triton_http_aio.InferenceServerClient(server.http)
    try:
        metadata = await client.get_model_metadata(model)
        _check(await client.infer(model, _inputs(triton_http_aio, arrays, metadata)), expected)
    finally:
        await client.close()


@pytest.mark.parametrize("model", CASES)
async def test_grpc_aio_client_gets_right_answers(server: RunningServer, model: str) -> None:
    arrays, expected = CASES[model]
    client = triton_grpc_aio.InferenceServerClient(server.grpc)
    try:
        metadata = await client.get_model_metadata(model, as_json=True)
        _check(await client.infer(model, _inputs(triton_grpc_aio, arrays, metadata)), expected)
    finally:
        await client.close()


def test_convolutional_network_equals_a_bare_session(server: RunningServer) -> None:
    path = ROOT / "configs/models/densenet_shaped/1/model.onnx"
    session = onnxruntime.InferenceSession(str(path))
    metadata = _metadata(server, "densenet_shaped")
    name = metadata["inputs"][0]["name"]
    expected = session.run(None, {session.get_inputs()[0].name: IMAGE})[0]
    with triton_http.InferenceServerClient(server.http) as client:
        result = client.infer("densenet_shaped", _inputs(triton_http, {name: IMAGE}, metadata))
    output = result.as_numpy(metadata["outputs"][0]["name"])
    np.testing.assert_allclose(output.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_digits_reach_the_accuracy_the_script_printed(
    server: RunningServer, demo_script: ModuleType
) -> None:
    images, labels = demo_script.held_out_digits()
    session = onnxruntime.InferenceSession(str(ROOT / "configs/models/digits/1/model.onnx"))
    predicted = session.run(["label"], {"X": images.astype(np.float32)})[0].reshape(-1)
    expected = float((predicted == labels).mean())
    assert expected > 0.95
    hits = 0
    with triton_http.InferenceServerClient(server.http) as client:
        for start in range(0, len(images), 4):
            batch = np.ascontiguousarray(images[start : start + 4], dtype=np.float32)
            tensor = triton_http.InferInput("X", list(batch.shape), "FP32")
            tensor.set_data_from_numpy(batch)
            answer = client.infer("digits", [tensor]).as_numpy("label").reshape(-1)
            hits += int((answer == labels[start : start + 4]).sum())
    assert hits / len(images) == pytest.approx(expected, abs=1e-9)


def test_classification_names_the_digit(server: RunningServer, demo_script: ModuleType) -> None:
    images, labels = demo_script.held_out_digits()
    tensor = triton_http.InferInput("X", [1, 64], "FP32")
    tensor.set_data_from_numpy(np.ascontiguousarray(images[:1], dtype=np.float32))
    output = triton_http.InferRequestedOutput("probabilities", class_count=3)
    with triton_http.InferenceServerClient(server.http) as client:
        rows = client.infer("digits", [tensor], outputs=[output]).as_numpy("probabilities")
    value, index, _label = rows.reshape(-1)[0].decode().split(":")
    assert int(index) == labels[0]
    assert 0 < float(value) <= 1


def test_the_png_pipeline_reads_digits_as_an_ensemble_and_as_calls(
    server: RunningServer, demo_script: ModuleType
) -> None:
    images, labels = (each[:64] for each in demo_script.held_out_digits())
    grey = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    blobs = np.array(
        [[png_of(image, [0, 1, 2, 3, 4, 0, 1, 2])] for image in grey], dtype=np.object_
    )
    tensor = triton_http.InferInput("PNG", list(blobs.shape), "BYTES")
    tensor.set_data_from_numpy(blobs)
    with triton_http.InferenceServerClient(server.http) as client:
        answers = [client.infer(name, [tensor]) for name in ("digits_png", "digits_png_bls")]
    names, by_calls = (answer.as_numpy("NAME").reshape(-1) for answer in answers)
    expected = np.array(
        [["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]]
    )[0][labels]
    assert (names.astype(str) == expected).mean() > 0.9
    np.testing.assert_array_equal(names, by_calls)
    np.testing.assert_allclose(*(answer.as_numpy("PROBABILITIES") for answer in answers))


def test_config_endpoint_agrees_over_both_protocols(server: RunningServer) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        over_http = client.get_model_config("simple")
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        over_grpc = client.get_model_config("simple", as_json=True)["config"]
    assert over_http["name"] == over_grpc["name"] == "simple"
    assert over_http["max_batch_size"] == over_grpc["max_batch_size"] == 8
    assert json.dumps(over_http["input"][0]["data_type"]) == '"TYPE_INT32"'


def test_server_metadata_lists_tritons_extensions(server: RunningServer) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        metadata = client.get_server_metadata()
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("digits")
    assert metadata["name"] == "triton"
    assert "binary_tensor_data" in metadata["extensions"]
