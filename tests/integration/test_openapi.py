# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The served OpenAPI document, held against the running server with generated requests.

Triton answers some requests it cannot read with 500, so 500 is a documented status; what must not
happen is an answer that only an unhandled exception gives, or a server that is worse for it.
"""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import tritonclient.http as triton_http
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CheckContext
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deployments.http.openapi.operations import OPERATIONS
from tests.support.server import RunningServer
from tests.support.shared_server import given_back

MODELS = ("each_datatype", "labelled", "piece")
INPUTS: dict[str, list[dict[str, Any]]] = {
    "each_datatype": [{"name": "IN_INT8", "shape": [2], "datatype": "INT8", "data": [1, 2]}],
    "labelled": [{"name": "VALUES", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}],
    "piece": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [0.5]}],
}


@pytest.fixture(scope="module")
def described(surface: RunningServer) -> Iterator[RunningServer]:
    before = len(surface.lines)
    with given_back(surface, MODELS):
        yield surface
    failures = [line for line in surface.lines[before:] if "failed to answer" in line]
    assert not failures, failures


@pytest.fixture(scope="module")
def document(described: RunningServer) -> Any:
    return schemathesis.openapi.from_url(f"http://{described.http}/v2/openapi.json")


def fitted(case: Any) -> None:
    """Let most requests speak of models there are, in terms that fit them."""
    path = case.path_parameters or {}
    if len(path.get("name", "")) > 1:
        path["name"] = MODELS[len(path["name"]) % len(MODELS)]
    if "version" in path:
        path["version"] = str(1 + len(path["version"]) % 2)
    inputs = INPUTS.get(path.get("name", ""))
    if inputs and case.operation.path.endswith("/infer") and isinstance(case.body, dict):
        case.body["inputs"] = inputs
        case.body["outputs"] = []


def no_unhandled_error(ctx: CheckContext, response: Any, case: Any) -> None:
    """Fail on answers that no handler gives."""
    assert response.status_code not in (502, 504)
    # The bytes: an answer with binary outputs is no text.
    assert b"internal error; the server's log says more" not in response.content


CHECKS = [
    no_unhandled_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_operations_answer_as_the_document_says(document: Any) -> None:
    count = 0
    for operation in document.get_all_operations():
        _hold(operation.ok())
        count += 1
    assert count > len(OPERATIONS)


def _hold(operation: Any) -> None:
    @given(case=operation.as_strategy())
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def hold(case: Any) -> None:
        fitted(case)
        case.call_and_validate(checks=CHECKS, timeout=20)

    hold()


def test_tcp_probes_that_send_nothing_are_taken_in_silence(described: RunningServer) -> None:
    # KServe's readiness probe of a Triton runtime.
    host, _, port = described.http.partition(":")
    before = len(described.lines)
    for _ in range(5):
        socket.create_connection((host, int(port)), timeout=5).close()
    with triton_http.InferenceServerClient(described.http) as client:
        assert client.is_server_ready()
    assert described.lines[before:] == []


def test_the_server_is_none_the_worse(described: RunningServer) -> None:
    with triton_http.InferenceServerClient(described.http) as client:
        assert client.is_server_live()
        client.load_model("piece")
        assert client.is_model_ready("piece")
        assert json.dumps(client.get_inference_statistics())
