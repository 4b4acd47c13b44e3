# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP requests as bytes, good and bad, and the answers to them."""

import json
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any

from tests.integration.test_bad_input import GOOD, _bodies
from tests.support.surface_models import CONFIG_TYPES, VALUES

BAD_BODIES = 150
TIMEOUT_S = 20.0
PATHS = (
    *("/v2", "/v2/health/live", "/v2/health/ready", "/v2/logging", "/v2/trace/setting", "/v2/"),
    *("/v2/models/each_datatype", "/v2/models/each_datatype/config", "/v2/models/pipeline/ready"),
    *("/v2/models/labelled/versions/1", "/v2/models/labelled/versions/9", "/v2/models/none"),
    *("/v2/models/add_sub/trace/setting", "/v2/systemsharedmemory/status", "/nowhere", "/%00"),
    *("/v2/cudasharedmemory/status", "/v2/models/%61dd_sub", "/v2/models/add_sub/infer", "/v1"),
)
_VALUE_OF_DATE = re.compile(rb"(?im)^(date:).*?\r$")


def http_requests() -> Iterator[tuple[str, bytes]]:
    """Yield each request with what it is; every one has a connection of its own."""
    for path in PATHS:
        for method in ("GET", "POST", "HEAD", "DELETE"):
            yield f"{method} {path}", request(method, path)
    yield "POST index", request("POST", "/v2/repository/index", b"{}")
    yield "POST index of ready", request("POST", "/v2/repository/index", b'{"ready": true}')
    yield from _infers()
    for index, body in enumerate(_bodies(BAD_BODIES)):
        yield f"bad body {index}", infer("add_sub", body)
    yield from _bad_http()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Return a request after which the server closes the connection."""
    lines = [f"{method} {path} HTTP/1.1", "Host: manta", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def infer(model: str, body: bytes, **headers: str) -> bytes:
    """Return an infer request."""
    return request("POST", f"/v2/models/{model}/infer", body, **headers)


def _infers() -> Iterator[tuple[str, bytes]]:
    for name, array in VALUES.items():
        data = array.tobytes()
        if name == "BYTES":
            data = b"".join(struct.pack("<I", len(each)) + each for each in array)
        given: dict[str, Any] = {"name": f"IN_{name}", "datatype": name, "shape": [len(array)]}
        header = {"inputs": [{**given, "parameters": {"binary_data_size": len(data)}}]}
        for binary in (True, False):
            header["outputs"] = [{"name": f"OUT_{name}", "parameters": {"binary_data": binary}}]
            yield f"{name} binary, binary answer {binary}", with_tail(header, data)
            yield f"{name} binary, cut off", with_tail(header, data[:-1])
        if CONFIG_TYPES[name] != "TYPE_STRING" and name not in {"FP16", "BF16", "FP32", "FP64"}:
            text = json.dumps({"id": "é\n", "inputs": [{**given, "data": array.tolist()}]})
            yield f"{name} as JSON", infer("each_datatype", text.encode())
    text = json.dumps({"inputs": GOOD["inputs"], "parameters": {"a": 1.5, "b": "x", "c": True}})
    yield "parameters", infer("add_sub", text.encode(), x_mine="forwarded")
    one = {"name": "IN", "datatype": "INT32", "shape": [1], "data": [1]}
    seen = {"id": "7", "inputs": [one], "parameters": {"sequence_id": 5, "n": 1e300, "z": None}}
    yield "echo", infer("echo_parameters", json.dumps(seen).encode(), x_mine="forwarded")
    del seen["parameters"]["z"]
    yield "echo without null", infer("echo_parameters", json.dumps(seen).encode(), x_mine="1")
    yield "generate", request("POST", "/v2/models/echo_parameters/generate", b'{"IN": 3, "t": "u"}')
    stream = "/v2/models/echo_parameters/generate_stream"
    yield "generate stream", request("POST", stream, b'{"IN": 3}')
    values = {"name": "VALUES", "datatype": "FP32", "shape": [1, 4], "data": [1, 4.5, -2, 1e-3]}
    wanted = {"name": "SCORES", "parameters": {"classification": 3}}
    body = json.dumps({"inputs": [values], "outputs": [wanted]}).encode()
    yield "classification", infer("labelled", body)
    pipeline = {"name": "IN", "datatype": "FP32", "shape": [3], "data": [0.1, -0.0, 3e38]}
    yield "ensemble", infer("pipeline", json.dumps({"inputs": [pipeline]}).encode())


def with_tail(header: dict[str, Any], tail: bytes) -> bytes:
    """Return an infer request whose tensors follow its header."""
    text = json.dumps(header).encode()
    return infer("each_datatype", text + tail, Inference_Header_Content_Length=str(len(text)))


def _bad_http() -> Iterator[tuple[str, bytes]]:
    body = json.dumps(GOOD).encode()
    length = "Inference_Header_Content_Length"
    for value in ("-1", "x", "99999999", "0", ""):
        yield f"header length '{value}'", infer("add_sub", body, **{length: value})
    for coding in ("gzip", "deflate", "br"):
        yield f"no {coding}", infer("add_sub", body, Content_Encoding=coding)
        yield f"answer as {coding}", infer("add_sub", body, Accept_Encoding=coding)
    head = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: m\r\nConnection: close\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    yield "chunked", head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield "chunk of no length", head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"
    yield "two lengths", head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"
    yield "no HTTP", b"\x16\x03\x01\x02\x00\r\n\r\n"
    yield "HTTP/1.0", b"GET /v2 HTTP/1.0\r\n\r\n"
    yield "space in a name", b"GET /v2 HTTP/1.1\r\nHost : m\r\nConnection: close\r\n\r\n"
    yield "long target", b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nConnection: close\r\n\r\n"


def answer(address: str, sent: bytes) -> bytes:
    """Send a request; return all that comes back until the connection closes, without the date."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(sent)
        received = b""
        while True:
            try:
                part = connection.recv(1 << 16)
            except ConnectionResetError:
                received += b"(reset)"
                break
            if not part:
                break
            received += part
    return _VALUE_OF_DATE.sub(rb"\1\r", received)
