# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Thousands of bad requests: each gets an answer or a closed connection, and nothing is leaked."""

import http.client
import json
import random
import socket

import psutil
import pytest
import tritonclient.http as triton_http

from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.server import RunningServer

GOOD = {
    "inputs": [
        {"name": name, "shape": [1, 16], "datatype": "INT32", "data": list(range(16))}
        for name in ("INPUT0", "INPUT1")
    ]
}
DAMAGE = [
    ("shape", [1, 15]),
    ("shape", [16]),
    ("shape", [99, 16]),
    ("shape", [-1, 16]),
    ("shape", "x"),
    ("datatype", "FP32"),
    ("datatype", "NOPE"),
    ("data", [1, 2, 3]),
    ("data", list(range(17))),
    ("data", ["a"] * 16),
    ("data", None),
    ("name", "INPUT9"),
    ("name", 3),
    ("parameters", {"binary_data_size": 64}),
    ("parameters", {"shared_memory_region": "none", "shared_memory_byte_size": 64}),
    ("parameters", []),
]


def _bodies(count: int) -> list[bytes]:
    rng = random.Random(20)
    bodies = []
    for _ in range(count):
        request = json.loads(json.dumps(GOOD))
        field, value = rng.choice(DAMAGE)
        request["inputs"][rng.randrange(2)][field] = value
        body = json.dumps(request).encode()
        if rng.random() < 0.4:
            position = rng.randrange(len(body))
            body = body[:position] + bytes([rng.randrange(256)]) + body[position + 1 :]
        if rng.random() < 0.2:
            body = body[: rng.randrange(len(body))]
        bodies.append(body)
    return bodies


def _post(
    connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
) -> int:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def _usage(server: RunningServer) -> dict[str, tuple[int, int]]:
    rows = {}
    for title in ("ray::ServeReplica:manta:Ingress", "ray::add_sub/1"):
        for process in server.processes(title):
            rows[f"{title} {process.pid}"] = (process.num_fds(), process.memory_info().rss)
    return rows


def test_thousands_of_bad_requests_leak_nothing(server: RunningServer) -> None:
    host, port = server.http.split(":")
    bodies = _bodies(3000)
    for body in bodies[:300]:  # first errors load code and fill caches
        _one(host, int(port), body)
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
    before = _usage(server)
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    for body in bodies:
        status = _post(connection, "/v2/models/add_sub/infer", body, {})
        assert status in (200, 400, 404, 500), (status, body)
    for path in ("/v2/models/none/infer", "/v2/models/add_sub/versions/7/infer"):
        assert _post(connection, path, json.dumps(GOOD).encode(), {}) == 404
    connection.close()
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
    after = _usage(server)
    assert after.keys() == before.keys()
    for name, (fds, rss) in after.items():
        assert fds <= before[name][0] + 4, name
        assert rss <= before[name][1] + 30 * 2**20, name


def _one(host: str, port: int, body: bytes) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    _post(connection, "/v2/models/add_sub/infer", body, {})
    connection.close()


@pytest.mark.parametrize("endpoint", ["http", "grpc", "metrics"])
def test_garbage_on_a_port_is_survived(server: RunningServer, endpoint: str) -> None:
    host, port = getattr(server, endpoint).split(":")
    rng = random.Random(5)
    for size in (1, 10, 100, 5000):
        for _ in range(25):
            with socket.create_connection((host, int(port)), timeout=30) as peer:
                peer.sendall(rng.randbytes(size))
                peer.shutdown(socket.SHUT_WR)
                try:
                    while peer.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))


def test_truncated_body_leaves_no_request_behind(server: RunningServer) -> None:
    host, port = server.http.split(":")
    body = json.dumps(GOOD).encode()
    head = (
        f"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for cut in range(0, len(body), 7):
        with socket.create_connection((host, int(port)), timeout=30) as peer:
            peer.sendall(head.encode() + body[:cut])
    ingress = server.processes("ray::ServeReplica:manta:Ingress")[0]
    assert isinstance(ingress, psutil.Process)
    with triton_http.InferenceServerClient(server.http) as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))


def test_body_over_the_limit_is_refused_before_it_is_read(server: RunningServer) -> None:
    host, port = server.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.putrequest("POST", "/v2/models/add_sub/infer")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    connection.send(b"x" * 100)
    answer = connection.getresponse()
    assert answer.status == 400
    assert "exceeds the maximum" in json.loads(answer.read())["error"]
    connection.close()
