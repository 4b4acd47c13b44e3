# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Names that lead elsewhere, wherever a client may give a name."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, infer_document, post_json, request

# A canary lies beside the repository, so that one step up is enough.
_TARGETS: Final = ("canary.txt", "etc/passwd", "proc/self/environ", "dev/shm")
_CLIMBS: Final = (
    "../", "../../", "../" * 12, "..\\", "./../", "....//", "..;/", "%2e%2e/", "%2e%2e%2f",
    "..%2f", "%252e%252e%252f", "..%c0%af", "..%ef%bc%8f", "/", "//", "file:///", "\u2025/",
    "add_sub/../../", "add_sub/1/../../../", "~/", "~root/", "$HOME/", "`id`/", "..\0/", "C:\\",
)  # fmt: skip
_ODD_NAMES: Final = (
    ".", "..", "...", "", " ", "\0", "a\0b", "a/b", "/", "-rf", "--help", "*", "?", "[a]", "{a,b}",
    "a\nb", "\x7f", "\u202e", "a" * 300, "CON", "nul.", "add_sub.", "add_sub ", "ADD_SUB",
    "add_sub/1", "add_sub\\1", "' OR 1=1 --", "${jndi:ldap://x/a}", "{{7*7}}", "<b>", "%s%s%n",
)  # fmt: skip


def corpus() -> Iterator[str]:
    """Yield names that lead out of where they are looked for, or are no names."""
    for climb in _CLIMBS:
        for target in _TARGETS:
            yield climb + target
    yield from _ODD_NAMES


def traverse_paths(scene: Scene, tally: Tally) -> None:
    """Give each name wherever there is a name to give."""
    with Connection(scene.server.http) as connection:
        for what, sent in _requests(scene):
            answer = connection.ask(sent)
            tally.check_answer(answer.status or 400, answer.body, what)
            tally.expect(scene.canary.encode() not in answer.body, f"{what}: shows a file")
            tally.expect(b"root:x:0" not in answer.body, f"{what}: shows /etc/passwd")
            tally.expect(
                answer.status != 200 or what.startswith("unload"), f"{what}: {answer.body[:100]!r}"
            )
    _by_rpc(scene, tally)
    with Connection(scene.server.http) as connection:
        status = connection.ask(request("GET", "/v2/systemsharedmemory/status"))
    tally.expect(status.body == b"[]", f"regions are registered: {status.body!r}")


def _names(scene: Scene) -> list[str]:
    return list(corpus())[:: scene.options.corpus_every]


def _requests(scene: Scene) -> Iterator[tuple[str, bytes]]:
    known = (scene.credential,)
    for name in _names(scene):
        for spelling in {name, quote(name, safe="")}:
            path = _target(spelling)
            yield f"metadata {name!r}", request("GET", b"/v2/models/" + path + b"/config")
            yield f"version {name!r}", request("GET", b"/v2/models/add_sub/versions/" + path)
            yield (
                f"infer {name!r}",
                request(
                    "POST",
                    b"/v2/models/" + path + b"/infer",
                    json.dumps(infer_document()).encode(),
                ),
            )
            load = b"/v2/repository/models/" + path
            yield f"load {name!r}", request("POST", load + b"/load", b"{}", known)
            yield f"unload {name!r}", request("POST", load + b"/unload", b"{}", known)
            yield (
                f"trace {name!r}",
                request(
                    "POST",
                    b"/v2/models/" + path + b"/trace/setting",
                    b'{"trace_level":["OFF"]}',
                    known,
                ),
            )
        yield from _documents(name, known)


def _target(name: str) -> bytes:
    """Return a name as it may stand in a request line: without what ends that."""
    raw = name.encode("utf-8", "surrogateescape")
    return b"".join(
        b"%%%02x" % byte if byte <= 0x20 or byte == 0x7F else bytes([byte]) for byte in raw
    )


def _documents(name: str, known: tuple[bytes, ...]) -> Iterator[tuple[str, bytes]]:
    shared = "/v2/systemsharedmemory/region/attack/register"
    for key in (name, f"/{name}"):
        yield f"key {key!r}", post_json(shared, {"key": key, "offset": 0, "byte_size": 64})
    yield f"log file {name!r}", post_json("/v2/logging", {"log_file": name}, known)
    yield f"trace file {name!r}", post_json("/v2/trace/setting", {"trace_file": name}, known)
    for content in ("file:" + name, "file:1/../../" + name):
        body = {"parameters": {"config": _config(), content: base64.b64encode(b"x").decode()}}
        yield f"override {content!r}", post_json("/v2/repository/models/climbs/load", body, known)
    for field in ("default_model_filename", "platform", "backend"):
        body = {"parameters": {"config": _config(**{field: name or "/"})}}
        yield f"{field} {name!r}", post_json("/v2/repository/models/add_sub/load", body, known)


def _config(**changes: Any) -> str:
    inputs = [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [16]}]
    config = {"backend": "no_such_backend", "max_batch_size": 8, "input": inputs, "output": inputs}
    return json.dumps(config | changes)


def _by_rpc(scene: Scene, tally: Tally) -> None:
    key = "triton-grpc-protocol-x-attack-secret"
    headers = {key: scene.secret}
    with triton_grpc.InferenceServerClient(scene.server.grpc) as client:
        for name in _names(scene):
            for what, call in (
                ("config", lambda n=name: client.get_model_config(n)),
                ("load", lambda n=name: client.load_model(n, headers=headers)),
                ("key", lambda n=name: client.register_system_shared_memory("attack", n, 64)),
                ("version", lambda n=name: client.get_model_metadata("add_sub", n or "x")),
            ):
                try:
                    call()  # type: ignore[no-untyped-call]
                    tally.findings.append(f"RPC {what} {name!r} is taken")
                except InferenceServerException as error:
                    tally.note(error.status())
                    tally.expect(
                        scene.canary not in str(error), f"RPC {what} {name!r} shows a file"
                    )
