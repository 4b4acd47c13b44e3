# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Object stores on loopback: moto's S3, azurite, and an emulator of Google's."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.retry import RetryPolicy
from tests.support.toxic_proxy import ToxicProxy

AZURITE = Path(__file__).parents[1] / "stores/azurite/node_modules/.bin/azurite-blob"
# Of azurite, published by its makers.
_AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
# What takes 60 s in production is over in one.
QUICK = RetryPolicy(attempts=12, base_s=0.01, cap_s=0.1, deadline_s=20.0)


@dataclass(frozen=True)
class Emulator:
    """A running store.

    Attributes:
        kind: Which.
        proxy: What stands between it and its clients.
        bucket: A bucket that is there.
        environ: What a client's environment has to say.
        scheme: Begin of its locations, up to the bucket.
    """

    kind: str
    proxy: ToxicProxy
    bucket: str
    scheme: str
    environ: Mapping[str, str] = field(default_factory=dict)
    opened: ExitStack = field(default_factory=ExitStack)

    def location(self, path: str = "", bucket: str = "") -> str:
        return f"{self.scheme}{bucket or self.bucket}" + (f"/{path}" if path else "")

    def open(self, path: str = "", bucket: str = "", policy: RetryPolicy = QUICK) -> Store:
        store = open_store(self.location(path, bucket), self.environ, policy)
        self.opened.callback(store.close)
        return store


@contextmanager
def running_s3() -> Iterator[Emulator]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        with ToxicProxy("http://{}:{}".format(*server.get_host_and_port())) as proxy:
            _ask("PUT", f"{proxy.url}/models", {"Authorization": _unsigned("s3")})
            environ = {
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "very-secret",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
            host = proxy.url.removeprefix("http://")
            yield Emulator("s3", proxy, "models", f"s3://{host}/", environ)
    finally:
        server.stop()


@contextmanager
def running_gcs() -> Iterator[Emulator]:
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    port = server._api._httpd.server_address[1]
    try:
        with ToxicProxy(f"http://127.0.0.1:{port}") as proxy:
            body = json.dumps({"name": "models"}).encode()
            headers = {"Content-Type": "application/json"}
            _ask("POST", f"{proxy.url}/storage/v1/b?project=p", headers, body)
            yield Emulator("gs", proxy, "models", "gs://", {"STORAGE_EMULATOR_HOST": proxy.url})
    finally:
        server.stop()


@contextmanager
def running_azure() -> Iterator[Emulator]:
    command = [
        str(AZURITE),
        *("--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"),
        *("--disableTelemetry", "--skipApiVersionCheck"),
    ]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        port = ""
        for line in process.stdout:
            if match := re.search(r"listens on http://127\.0\.0\.1:(\d+)", line):
                port = match[1]
                break
        assert port, "azurite did not start"
        proxy = stack.enter_context(ToxicProxy(f"http://127.0.0.1:{port}"))
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName={_AZURE_ACCOUNT};AccountKey={_AZURE_KEY};"
            f"BlobEndpoint={proxy.url}/{_AZURE_ACCOUNT};"
        )
        _make_container(connection, "models")
        yield Emulator(
            "as",
            proxy,
            "models",
            f"as://{_AZURE_ACCOUNT}/",
            {"AZURE_STORAGE_CONNECTION_STRING": connection},
        )


RUNNING = {"s3": running_s3, "gs": running_gcs, "as": running_azure}


def has_azurite() -> bool:
    return AZURITE.exists() and shutil.which("node") is not None


def _make_container(connection: str, name: str) -> None:
    from azure.storage.blob import ContainerClient

    with ContainerClient.from_connection_string(connection, name) as container:
        container.create_container()


def _unsigned(service: str) -> str:
    day = "20260101/us-east-1"
    return f"AWS4-HMAC-SHA256 Credential=testing/{day}/{service}/aws4_request, Signature=x"


def _ask(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> None:
    with urlopen(Request(url, body, headers, method=method)):
        pass
