# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The interop matrix of our gRPC transport: every client is somebody else's HTTP/2.

The tools come with ``make interop-tools``. A test whose tool is missing is skipped with the reason.
"""

import asyncio
import json
import queue
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.integration.interop_models import write_interop_models
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.grpc_messages import (
    INFER_PATH,
    add_sub_request,
    check_add_sub_answer,
    descriptor_set,
    framed,
    identity_request,
    patient_request,
    unframed,
    word,
    words_request,
)
from tests.support.server import RunningServer
from tests.support.shared_server import brought

GRPC_JS = Path(__file__).parent / "grpc_js"
GRPC_JS_CASES = (
    "unary",
    "concurrent",
    "connections",
    "large",
    "compressed",
    "serverStreaming",
    "bidi",
    "deadline",
    "cancellation",
    "statuses",
    "control",
)
GRPC_HEADERS = ("content-type: application/grpc", "te: trailers")
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def interop(
    surface: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("interop")
    write_interop_models(repository)
    with brought(surface, repository) as running:
        yield running


@pytest.fixture
def stub(interop: RunningServer) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(interop.grpc, [*UNLIMITED, OWN_CONNECTION]) as channel:
        yield GRPCInferenceServiceStub(channel)


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed and 'make interop-tools' could not install it")
    return path


def _run(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


# ---- grpcio ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 100, 16_383, 16_384, 65_536, 1_000_003, 64 << 20, 512 << 20])
def test_grpcio_gets_tensors_of_any_size_back(stub: GRPCInferenceServiceStub, size: int) -> None:
    content = bytes(np.arange(size, dtype=np.uint8))
    answer = stub.ModelInfer(identity_request(content), timeout=TIMEOUT_S)
    assert answer.raw_output_contents[0] == content


def test_grpcio_threads_share_connections(interop: RunningServer) -> None:
    channels = [grpc.insecure_channel(interop.grpc, [OWN_CONNECTION]) for _ in range(6)]
    stubs = [GRPCInferenceServiceStub(channel) for channel in channels]
    request = add_sub_request()
    with ThreadPoolExecutor(24) as threads:
        calls = [
            threads.submit(stubs[number % 6].ModelInfer, request, timeout=TIMEOUT_S)
            for number in range(1200)
        ]
        for call in calls:
            check_add_sub_answer(call.result())
    for channel in channels:
        channel.close()


def test_grpcio_streams_in_both_directions(stub: GRPCInferenceServiceStub) -> None:
    requests = (words_request(f"a{number} b{number}") for number in range(50))
    words = [word(answer) for answer in stub.ModelStreamInfer(requests, timeout=TIMEOUT_S)]
    # Requests of one stream are independent: only the words of each have an order.
    assert sorted(words) == sorted(f"{letter}{number}" for number in range(50) for letter in "ab")
    for number in range(50):
        assert words.index(f"a{number}") < words.index(f"b{number}")


def test_grpcio_deadline_and_cancellation_reach_the_model(stub: GRPCInferenceServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(patient_request(True), timeout=0.3)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    # The model has one instance: it answers again only if the call has ended in it.
    stub.ModelInfer(patient_request(False), timeout=TIMEOUT_S)
    call = stub.ModelInfer.future(patient_request(True), timeout=TIMEOUT_S)
    call.cancel()
    stub.ModelInfer(patient_request(False), timeout=TIMEOUT_S)


def test_grpcio_reads_its_answers_slowly(stub: GRPCInferenceServiceStub) -> None:
    # 64 answers of 1 MiB are over every window and every buffer of both sides.
    content = bytes(1 << 20)
    requests: queue.SimpleQueue[service_pb2.ModelInferRequest | None] = queue.SimpleQueue()
    for _ in range(64):
        requests.put(identity_request(content))
    call = stub.ModelStreamInfer(iter(requests.get, None), timeout=TIMEOUT_S)
    first = next(call)
    # Another call on the same connection is served while nobody reads the stream.
    check_add_sub_answer(stub.ModelInfer(add_sub_request(), timeout=TIMEOUT_S))
    requests.put(None)
    sizes = [len(answer.infer_response.raw_output_contents[0]) for answer in (first, *call)]
    assert sizes == [1 << 20] * 64


async def test_grpc_aio_runs_unary_calls_and_streams_at_once(interop: RunningServer) -> None:
    async with grpc.aio.insecure_channel(interop.grpc, UNLIMITED) as channel:
        stub = GRPCInferenceServiceStub(channel)

        async def converse(name: str) -> list[str]:
            call = stub.ModelStreamInfer(timeout=TIMEOUT_S)
            seen = []
            for number in range(20):
                await call.write(words_request(f"{name}{number}"))
                seen.append(word(await call.read()))
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            return seen

        streams = [asyncio.ensure_future(converse(name)) for name in "abcd"]
        request = add_sub_request()
        for answer in await asyncio.gather(
            *(stub.ModelInfer(request, timeout=TIMEOUT_S) for _ in range(500))
        ):
            check_add_sub_answer(answer)
        content = bytes(np.arange(16 << 20, dtype=np.uint8))
        large = await stub.ModelInfer(identity_request(content), timeout=TIMEOUT_S)
        assert large.raw_output_contents[0] == content
        for name, seen in zip("abcd", await asyncio.gather(*streams), strict=True):
            assert seen == [f"{name}{number}" for number in range(20)]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ModelInfer(patient_request(True), timeout=0.3)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await stub.ModelInfer(patient_request(False), timeout=TIMEOUT_S)


# ---- tritonclient ----------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_triton_client_infers(interop: RunningServer, compression: str | None) -> None:
    infer = partial(
        triton_grpc.InferenceServerClient.infer,
        model_name="add_sub",
        inputs=add_sub_inputs(triton_grpc),
        compression_algorithm=compression,
    )
    with triton_grpc.InferenceServerClient(interop.grpc) as client:
        for _ in range(20):
            check_add_sub(infer(client))


def test_triton_client_infers_asynchronously(interop: RunningServer) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton_grpc.InferenceServerClient(interop.grpc) as client:
        for _ in range(200):
            client.async_infer(
                "add_sub",
                add_sub_inputs(triton_grpc),
                lambda result, error: answers.put((result, error)),
            )
        for _ in range(200):
            result, error = answers.get(timeout=TIMEOUT_S)
            assert error is None
            check_add_sub(result)


def _text(module: Any, text: str) -> list[Any]:
    tensor = module.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode()], np.object_))
    return [tensor]


def test_triton_client_streams(interop: RunningServer) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton_grpc.InferenceServerClient(interop.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("words", _text(triton_grpc, "one two three"))
        seen = [answers.get(timeout=TIMEOUT_S)[0].as_numpy("text_output")[0] for _ in range(3)]
        client.stop_stream()
    assert seen == [b"one", b"two", b"three"]


async def test_triton_aio_client_infers_and_streams(interop: RunningServer) -> None:
    async with triton_grpc_aio.InferenceServerClient(interop.grpc) as client:
        answers = await asyncio.gather(
            *(client.infer("add_sub", add_sub_inputs(triton_grpc_aio)) for _ in range(100))
        )
        for answer in answers:
            check_add_sub(answer)

        async def requests() -> Any:
            yield {"model_name": "words", "inputs": _text(triton_grpc_aio, "x y z")}

        seen = []
        async for result, error in client.stream_infer(requests()):
            assert error is None
            seen.append(result.as_numpy("text_output")[0])
        assert seen == [b"x", b"y", b"z"]


# ---- @grpc/grpc-js ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grpc_js(interop: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    node = _tool("node")
    if not (GRPC_JS / "node_modules/@grpc/grpc-js").is_dir():
        pytest.skip("@grpc/grpc-js is not installed and 'make interop-tools' could not install it")
    descriptors = tmp_path_factory.mktemp("grpc_js") / "service.binpb"
    descriptors.write_bytes(descriptor_set())
    outcomes = json.loads(_run(node, str(GRPC_JS / "interop.js"), interop.grpc, str(descriptors)))
    assert outcomes.keys() == set(GRPC_JS_CASES)
    return outcomes


@pytest.mark.parametrize("case", GRPC_JS_CASES)
def test_grpc_js(grpc_js: dict[str, str], case: str) -> None:
    assert grpc_js[case] == "ok"


# ---- HTTP/2 tools ----------------------------------------------------------------------------


@pytest.fixture
def body(tmp_path: Path) -> Callable[[service_pb2.ModelInferRequest], Path]:
    def write(request: service_pb2.ModelInferRequest) -> Path:
        path = tmp_path / "request.grpc"
        path.write_bytes(framed(request.SerializeToString()))
        return path

    return write


def _headers() -> list[str]:
    return [argument for header in GRPC_HEADERS for argument in ("-H", header)]


@pytest.mark.parametrize("size", [1, 1 << 20, 32 << 20])
def test_curl_calls_with_prior_knowledge(
    interop: RunningServer, body: Callable[..., Path], tmp_path: Path, size: int
) -> None:
    curl = _tool("curl")
    if b"HTTP2" not in _run(curl, "--version"):
        pytest.skip("curl is built without HTTP/2")
    content = bytes(np.arange(size, dtype=np.uint8))
    request = body(identity_request(content))
    heads, answered = tmp_path / "heads", tmp_path / "answer"
    _run(
        curl, "-sS", "--http2-prior-knowledge", *_headers(), "--data-binary", f"@{request}",
        "-D", str(heads), "-o", str(answered), f"http://{interop.grpc}{INFER_PATH}",
    )  # fmt: skip
    assert heads.read_text().startswith("HTTP/2 200")
    assert "grpc-status: 0" in heads.read_text()
    answer = service_pb2.ModelInferResponse.FromString(unframed(answered.read_bytes()))
    assert answer.raw_output_contents[0] == content


# Windows of 2^10-1 bytes, padding and priorities are rare among gRPC clients.
@pytest.mark.parametrize(
    "flags",
    [(), ("-w10",), ("-W16",), ("-b255",), ("-p200",), ("--no-dep",),
     ("--header-table-size=0",), ("--encoder-header-table-size=0",), ("--expect-continue",)],
    ids=lambda flags: "".join(flags).lstrip("-") or "plain",
)  # fmt: skip
def test_nghttp_calls(
    interop: RunningServer, body: Callable[..., Path], flags: tuple[str, ...]
) -> None:
    _tool("nghttp")
    request = body(identity_request(bytes(100_000)))
    shown = _nghttp(interop, request, *flags)
    assert shown.count("grpc-status: 0") == 4
    assert "recv RST_STREAM" not in shown
    assert "recv GOAWAY" not in shown


def test_nghttp_is_told_that_its_headers_are_too_large(
    interop: RunningServer, body: Callable[..., Path]
) -> None:
    _tool("nghttp")
    # 25 KB of headers, with the priorities that the flag is about.
    shown = _nghttp(interop, body(add_sub_request()), "--continuation")
    assert shown.count("received metadata size exceeds limit") == 4
    assert "recv GOAWAY" not in shown


def _nghttp(server: RunningServer, request: Path, *flags: str) -> str:
    command = ["nghttp", "-nv", "-m4", "-H:method: POST", *_headers(), "-d", str(request), *flags]
    return _run(*command, f"http://{server.grpc}{INFER_PATH}").decode()


@pytest.mark.parametrize(
    "flags", [("-c1", "-m1"), ("-c8", "-m64"), ("-c4", "-m16", "-w10", "-W12")]
)
def test_h2load_loses_no_request(
    interop: RunningServer, body: Callable[..., Path], flags: tuple[str, ...]
) -> None:
    h2load = _tool("h2load")
    request = body(add_sub_request())
    shown = _run(
        h2load, "-n4000", *flags, *_headers(), "-d", str(request),
        f"http://{interop.grpc}{INFER_PATH}",
    ).decode()  # fmt: skip
    assert "4000 succeeded, 0 failed, 0 errored, 0 timeout" in shown
    assert re.search(r"status codes: 4000 2xx", shown)
