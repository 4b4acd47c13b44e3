# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One server with mutual TLS on gRPC and metrics and TLS on HTTP, and stock clients.

It has no fork server, which no other one of these tests is without.
"""

import asyncio
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import write_add_sub
from tests.integration.test_fork_server import FORK_SERVER
from tests.support.certificates import Certificates
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.server import ROOT, RunningServer, title_of


@pytest.fixture(scope="module")
def secured(
    pems: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("models")
    write_add_sub(repository, "add_sub")
    mutual = (*pems.flags("grpc", mutual=True), *pems.flags("metrics", mutual=True))
    server = RunningServer(repository, "--no-fork-server", *mutual, *pems.flags("http"))
    yield server
    assert server.terminate() == 0
    # What the files hold is nobody's to read.
    secret = pems.server[1].read_text().splitlines()[1]
    assert secret not in "".join(server.lines)


def grpc_options(pems: Certificates, pair: tuple[Path, Path] | None) -> dict[str, object]:
    certificate, key = pair or (None, None)
    return {
        "ssl": True,
        "root_certificates": str(pems.root),
        "certificate_chain": certificate and str(certificate),
        "private_key": key and str(key),
    }


def test_grpc_clients_with_a_certificate_infer(secured: RunningServer, pems: Certificates) -> None:
    options = grpc_options(pems, pems.client)
    with triton_grpc.InferenceServerClient(secured.grpc, **options) as client:
        assert client.is_server_ready()
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_grpc)))

    async def work() -> None:
        async with triton_grpc_aio.InferenceServerClient(secured.grpc, **options) as client:
            check_add_sub(await client.infer("add_sub", add_sub_inputs(triton_grpc_aio)))

    asyncio.run(work())


@pytest.mark.parametrize("who", ["nobody", "stranger", "plaintext"])
def test_other_grpc_clients_are_refused(
    secured: RunningServer, pems: Certificates, who: str
) -> None:
    options = {} if who == "plaintext" else grpc_options(pems, getattr(pems, who, None))
    with (
        triton_grpc.InferenceServerClient(secured.grpc, **options) as client,
        pytest.raises(InferenceServerException) as caught,
    ):
        client.is_server_live(client_timeout=20)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"


def test_http_clients_infer(secured: RunningServer, pems: Certificates) -> None:
    with triton_http.InferenceServerClient(
        secured.http, ssl=True, ssl_options={"ca_certs": str(pems.root)}
    ) as client:
        assert client.is_server_ready()
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))

    async def work() -> None:
        context = ssl.create_default_context(cafile=str(pems.root))
        async with triton_http_aio.InferenceServerClient(
            secured.http, ssl=True, ssl_context=context
        ) as client:
            check_add_sub(await client.infer("add_sub", add_sub_inputs(triton_http_aio)))

    asyncio.run(work())


def test_http_clients_without_tls_or_trust_are_refused(
    secured: RunningServer, pems: Certificates
) -> None:
    with (
        triton_http.InferenceServerClient(secured.http) as client,
        pytest.raises(Exception, match=r"(?i)closed|reset|invalid|response"),
    ):
        client.is_server_live()
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"https://{secured.http}/v2/health/live", timeout=20)


def test_metrics_are_told_to_clients_with_a_certificate(
    secured: RunningServer, pems: Certificates
) -> None:
    url = f"https://{secured.metrics}/metrics"
    context = ssl.create_default_context(cafile=str(pems.root))
    with pytest.raises(OSError, match=r"(?i)certificate required|reset|eof|closed"):
        urllib.request.urlopen(url, timeout=20, context=context).read()
    context.load_cert_chain(*pems.client)
    with urllib.request.urlopen(url, timeout=20, context=context) as answer:
        assert b"nv_inference_request_success" in answer.read()


def test_without_a_fork_server_every_process_is_started(secured: RunningServer) -> None:
    assert not any(title_of(each).startswith(FORK_SERVER) for each in secured.tree())
    (instance,) = secured.processes("ray::add_sub/1#")
    assert title_of(instance.parent()).split()[0].endswith("/raylet")


def test_a_file_that_cannot_be_used_stops_the_start(pems: Certificates, tmp_path: Path) -> None:
    flags = [flag.replace("server.key", "client.key") for flag in pems.flags("grpc")]
    command = [sys.executable, "-m", "cluster", "serve", f"--model-repository={tmp_path}", *flags]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "error: creating server: Invalid argument - --grpc-server-key: file" in ended.stderr
    assert "does not belong to the certificate" in ended.stderr
