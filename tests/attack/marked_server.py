# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server that is given every kind of secret there is, and clients that show it theirs."""

import base64
import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.attack.echoing_peers import EchoingPeers
from tests.attack.forged_tokens import forged_tokens, write_policy
from tests.attack.marks import Mark, made_mark, mark_of, pem_mark, ray_token
from tests.attack.scene import PATIENCE_S
from tests.attack.wire import Connection, infer_document, post_json, request
from tests.integration.conftest import write_add_sub
from tests.support.certificates import make_certificates
from tests.support.clients import add_sub_inputs
from tests.support.server import RunningServer

_MODEL: Final = "/v2/models/add_sub"
_PAGES: Final = (
    "/v2", _MODEL, f"{_MODEL}/config", f"{_MODEL}/stats", "/v2/models/stats", "/v2/logging",
    "/v2/trace/setting", f"{_MODEL}/trace/setting", "/v2/openapi.json", f"{_MODEL}/rollout",
    "/v2/systemsharedmemory/status", "/v2/models/none",
)  # fmt: skip
_OTLP: Final = "OTEL_EXPORTER_OTLP_HEADERS"
# Whose values processes need: those that ask stores, caches and agents, on any node. Ray's
# processes, and with them models, inherit them.
CREDENTIALS_OF_PROCESSES: Final = frozenset(
    {
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY", "HF_TOKEN",
        "MLFLOW_TRACKING_PASSWORD", "TRITONCACHE_REDIS_PASSWORD", "ATTACK_MODEL_KEY",
        "RAY_AUTH_TOKEN", _OTLP,
    }
)  # fmt: skip
_SEALED: Final = """
model_repository_agents { agents [ { name: "decrypt"
  parameters { key: "key_env" value: "ATTACK_MODEL_KEY" }
  parameters { key: "files" value: "*.py" } } ] }
"""
_CACHED: Final = "response_cache { enable: true }\n"


@dataclass(frozen=True)
class _Given:
    """What the server is started with."""

    flags: tuple[str, ...]
    environment: dict[str, str]


class MarkedServer:
    """See the module.

    Args:
        folder: For its files, empty.

    Attributes:
        server: The server.
        marks: The secrets.
        written: Folder of what the server writes: its log, traces, captures, audit log.
        concealed: Variables that no process may inherit.
        environment: What the server was started with.
    """

    concealed: Final = ("MANTA_GRPC_RESTRICTED_PROTOCOL", "MANTA_CACHE_CONFIG")

    def __init__(self, folder: Path) -> None:
        self.marks: list[Mark] = list(ray_token())
        self.written = folder / "written"
        self.written.mkdir()
        self._peers = EchoingPeers()
        self._certificates = make_certificates(folder)
        self.marks.append(pem_mark("the key of TLS", self._certificates.server[1]))
        self._signed = write_policy(
            folder,
            roles=("metadata", "health", "infer", "statistics", "control", "settings", "metrics"),
            models=("*",),
            audit={
                "file": str(self.written / "audit.jsonl"),
                "outcomes": ["denied", "unauthenticated", "allowed", "failed"],
            },
        )
        for name in ("key", "late_key", "revoked_key", "token"):
            self.marks.append(mark_of(f"a client's {name}", getattr(self._signed, name)))
        self._restricted = self._made("the restricted APIs' value")
        repository = self._write_models(folder / "models")
        flags, self.environment = self._flags(folder), os.environ | self._environment(folder)
        self.server = RunningServer(repository, *flags, environment=self.environment)

    @property
    def stores(self) -> tuple[str, ...]:
        """Locations in stores, which refuse it. A server with one of them loads nothing."""
        http = self._peers.http
        return (f"s3://http://{http}/bucket/m", f"mlflow://{http}/models/m", "hf://manta/m")

    @property
    def headers(self) -> dict[str, str]:
        """Credentials of who may ask for all."""
        return {"x-api-key": self._signed.key}

    def was_shown(self, text: str) -> bool:
        """Whether a text is in what a peer was shown, which all of them repeat.

        Traces are sent some time after what they are of.
        """
        return self._peers.shown.has(text, timeout_s=PATIENCE_S)

    def close(self) -> None:
        """End the server and its peers."""
        self.server.terminate()
        self._peers.close()

    def _made(self, name: str, prefix: str = "") -> str:
        secret, mark = made_mark(name, prefix)
        self.marks.append(mark)
        return secret

    def _write_models(self, repository: Path) -> Path:
        repository.mkdir()
        for name, more in (("add_sub", _CACHED), ("sealed", _SEALED)):
            write_add_sub(repository, name)
            with (repository / name / "config.pbtxt").open("a") as config:
                config.write(more)
        return repository

    def _flags(self, folder: Path) -> tuple[str, ...]:
        (folder / "captures.yaml").write_text(
            json.dumps({"store": str(self.written / "captures"), "captures": [{"models": ["*"]}]})
        )
        pattern = "(?i)authorization|cookie|key|secret"
        password = self._made("the password of --cache-config")
        return (
            "--model-control-mode=explicit",
            "--load-model=add_sub",
            "--exit-on-error=false",
            "--dashboard=true",
            "--log-verbose=1",
            f"--log-file={self.written / 'server.log'}",
            f"--access-policy={self._signed.policy}",
            *self._certificates.flags("grpc"),
            f"--http-restricted-api=shared-memory:x-attack-secret={self._restricted}",
            f"--http-header-forward-pattern={pattern}",
            f"--grpc-header-forward-pattern={pattern}",
            f"--capture-config={folder / 'captures.yaml'}",
            "--trace-config=mode=opentelemetry",
            "--trace-config=rate=1",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=opentelemetry,bsp_schedule_delay=100",
            f"--trace-config=opentelemetry,url=http://{self._peers.http}/v1/traces",
            "--cache-config=redis,host=127.0.0.1",
            f"--cache-config=redis,port={self._peers.redis}",
            f"--cache-config=redis,password={password}",
        )

    def _environment(self, folder: Path) -> dict[str, str]:
        file_key = self._made("a key of the file of credentials")
        google = folder / "google.json"
        google.write_text(
            json.dumps({"type": "service_account", "private_key": self._made("Google's key")})
        )
        (folder / "cloud.json").write_text(
            json.dumps(
                {
                    "s3": {"": {"key_id": "who", "secret_key": file_key, "region": "us-east-1"}},
                    "gs": {"": str(google)},
                    "as": {"": {"account_str": "who", "account_key": self._made("Azure's key")}},
                }
            )
        )
        made = {
            name: self._made(f"the value of {name}")
            for name in sorted(CREDENTIALS_OF_PROCESSES - {"RAY_AUTH_TOKEN", _OTLP})
        }
        basic = base64.b64encode(f"who:{made['MLFLOW_TRACKING_PASSWORD']}".encode()).decode()
        self.marks.append(mark_of("MLflow's user and password in base64", basic))
        made[_OTLP] = f"x-collector-key={self._made('the key of the collector of traces')}"
        restricted = self._made("the restricted protocols' value")
        return made | {
            "TRITON_CLOUD_CREDENTIAL_PATH": str(folder / "cloud.json"),
            "HF_ENDPOINT": f"http://{self._peers.http}",
            "MLFLOW_TRACKING_USERNAME": "who",
            "MANTA_GRPC_RESTRICTED_PROTOCOL": f"shared-memory:x-attack-secret={restricted}",
        }

    def ask_as_clients(self) -> Iterator[tuple[str, bytes]]:
        """Show the server good and bad credentials; yield what it answers."""
        key, token = self._signed.key.encode(), self._signed.token.encode()
        cookie = b"cookie: session=" + self._made("a cookie").encode()
        good = (b"x-api-key: " + key, cookie)
        with Connection(self.server.http) as connection:

            def ask(sent: bytes, what: str) -> tuple[str, bytes]:
                answer = connection.ask(sent)
                return f"the answer to {what}", answer.head + answer.body

            for headers in (good, (b"authorization: Bearer " + token, cookie)):
                for page in _PAGES:
                    yield ask(request("GET", page, b"", headers), page)
                yield ask(post_json(f"{_MODEL}/infer", infer_document(), headers), "an inference")
                yield ask(post_json(f"{_MODEL}/infer", {"inputs": 1}, headers), "a bad request")
            for name in ("sealed", "none"):
                yield ask(post_json(f"/v2/repository/models/{name}/load", {}, good), f"load {name}")
            yield ask(post_json("/v2/repository/index", {}, good), "the index")
            restricted = b"x-attack-secret: " + self._restricted.encode()
            for shown in (restricted, restricted + b"x"):
                opening = (*good, shown)
                status = "/v2/systemsharedmemory/status"
                yield ask(request("GET", status, b"", opening), "a restricted API")
                yield ask(post_json(f"{_MODEL}/infer", infer_document(), opening), "an inference")
            for what, header in self._bad_headers():
                yield ask(request("GET", _MODEL, b"", (header,)), what)
        yield from self._ask_over_grpc(good=self._signed.key)

    def _bad_headers(self) -> Iterator[tuple[str, bytes]]:
        signed = self._signed
        for key in (signed.late_key, signed.revoked_key, self._made("a wrong key", "mk_")):
            yield "a bad key", b"x-api-key: " + key.encode()
            yield "a bad key", b"authorization: Bearer " + key.encode()
        for number, (what, token) in enumerate(forged_tokens(signed)):
            # Those that are short are parts of others.
            if number % 8 == 0 and len(token) > 64 and token.isprintable() and token.isascii():
                self.marks.append(mark_of(f"a token with {what}", token))
                yield f"a token with {what}", b"authorization: Bearer " + token.encode()
        basic = base64.b64encode(self._made("a user's password").encode()).decode()
        self.marks.append(mark_of("a user's password in base64", basic))
        yield "a password", b"authorization: Basic " + basic.encode()

    def _ask_over_grpc(self, good: str) -> Iterator[tuple[str, bytes]]:
        root = str(self._certificates.root)
        wrong = self._made("a wrong key over gRPC", "mk_")
        with triton_grpc.InferenceServerClient(
            self.server.grpc, ssl=True, root_certificates=root
        ) as client:
            for key in (good, wrong, self._signed.revoked_key):
                headers = {"x-api-key": key, "cookie": self._made("a cookie over gRPC")}
                inputs = add_sub_inputs(triton_grpc)
                with contextlib.suppress(InferenceServerException):
                    result = client.infer("add_sub", inputs, headers=headers)
                    yield "an answer over gRPC", str(result.get_response()).encode()
                try:
                    client.load_model("sealed", headers=headers)
                except InferenceServerException as error:
                    yield "a refusal over gRPC", str(error).encode()
