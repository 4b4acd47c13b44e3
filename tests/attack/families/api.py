# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""OWASP's API security top ten of 2023, as far as a server without users of its own has them.

API4 (consumption) is what bombs, slow peers and fuzzing are about; API7 (request forgery) has a
family; API1, API3 and API6 are about whose object it is, which an access policy says.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Answer, Connection, post_json, request

_UNLOAD: Final = "/v2/repository/models/add_sub/unload"
_RESTRICTED: Final = (
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/add_sub/load"),
    ("POST", _UNLOAD),
    ("GET", "/v2/logging"),
    ("POST", "/v2/logging"),
    ("GET", "/v2/trace/setting"),
    ("POST", "/v2/models/add_sub/trace/setting"),
)
# Ways to write the path of a restricted API that something in front may take for another one.
_DISGUISED: Final = (
    "//v2/repository/models/add_sub/unload",
    "/v2//repository/models/add_sub/unload",
    "/v2/./repository/models/add_sub/unload",
    "/v2/x/../repository/models/add_sub/unload",
    "/v2/repository/models/add_sub/unload/",
    "/v2/repository/models/add_sub/unload;x=y",
    "/v2/repository/models/add_sub/unload?x-attack-secret=",
    "/v2/repository/models/add_sub/unload#x",
    "/v2/repository/models/add_sub/unload%00",
    "/v2/repository/models/add_sub/%75nload",
    "/v2/%72epository/models/add_sub/unload",
    "/v2%2frepository%2fmodels%2fadd_sub%2funload",
    "/V2/REPOSITORY/models/add_sub/unload",
    "http://127.0.0.1/v2/repository/models/add_sub/unload",
    "http:///v2/repository/models/add_sub/unload",
    "/v2/repository/r/models/add_sub/unload",
    "/v2/health/live/../../repository/models/add_sub/unload",
)
_UNKNOWN_PLACES: Final = (
    "/", "/debug", "/admin", "/metrics", "/docs", "/v1/models/add_sub:predict", "/.git/config",
    "/.env", "/server-status", "/actuator/env", "/api/v0/nodes", "/v3", "/v2/internal",
    "/-/routes", "/v2/repository", "/v2/models", "/..", "/v2/../../etc/passwd",
)  # fmt: skip
_METHODS: Final = ("TRACE", "OPTIONS", "PUT", "PATCH", "DELETE", "CONNECT", "PROPFIND", "DEBUG")


def attack_api(scene: Scene, tally: Tally) -> None:
    """See the module."""
    with Connection(scene.server.http) as connection:
        _broken_authentication(scene, tally, connection)
        _broken_function_level(tally, connection)
        _misconfiguration(scene, tally, connection)
        _forgotten_inventory(tally, connection)
    _restricted_rpcs(scene, tally)


def _refused(tally: Tally, answer: Answer, what: str) -> None:
    tally.check_answer(answer.status or 400, answer.body, what)
    tally.expect(answer.status != 200, f"{what}: let in")


def _broken_authentication(scene: Scene, tally: Tally, connection: Connection) -> None:
    secret = scene.secret.encode()
    wrong: tuple[tuple[bytes, ...], ...] = (
        (),
        (b"x-attack-secret:",),
        (b"x-attack-secret: " + secret[:-1],),
        (b"x-attack-secret: " + secret + b"0",),
        (b"x-attack-secret: " + secret.upper() + b"g",),
        (b"x_attack_secret: " + secret,),
        (b"x-attack-secret2: " + secret,),
        (b"x-attack-secret: *",),
        (b"x-attack-secret: ' OR '1'='1",),
        (b"x-attack-secret: " + secret + b"," + secret,),
        (b"cookie: x-attack-secret=" + secret,),
        (b"authorization: Bearer " + secret,),
        (b"x-attack-secret: " + b"\xff" * 64,),
    )
    for method, path in _RESTRICTED:
        for headers in wrong:
            answer = connection.ask(request(method, path, b"", headers))
            _refused(tally, answer, f"{method} {path} with {headers!r}")
            tally.expect(secret not in answer.body, f"{method} {path} tells the secret")
    good = connection.ask(request("POST", "/v2/repository/index", b"", (scene.credential,)))
    tally.expect(good.status == 200, f"who knows the secret gets {good.status}")


def _broken_function_level(tally: Tally, connection: Connection) -> None:
    for path in _DISGUISED:
        _refused(tally, connection.ask(request("POST", path)), f"POST {path}")
    overrides = (b"x-http-method-override: POST", b"x-original-url: " + _UNLOAD.encode())
    for method in ("GET", "HEAD", *_METHODS):
        answer = connection.ask(request(method, _UNLOAD, b"", overrides))
        connection.close()
        _refused(tally, answer, f"{method} {_UNLOAD}")
    for header in (b"x-original-url: ", b"x-rewrite-url: ", b"x-forwarded-prefix: "):
        answer = connection.ask(request("GET", "/v2/health/live", b"", (header + b"/v2/logging",)))
        tally.check_answer(answer.status, answer.body, "a path in a header")
        tally.expect(not answer.body, "a path in a header counts")


def _misconfiguration(scene: Scene, tally: Tally, connection: Connection) -> None:
    origin = (b"origin: https://evil.example", b"access-control-request-method: POST")
    for path in ("/v2", "/v2/models/add_sub", "/v2/models/add_sub/config", "/v2/models/none"):
        answer = connection.ask(request("GET", path, b"", origin))
        tally.check_answer(answer.status, answer.body, path)
        lines = answer.header_lines
        tally.expect(b"x-content-type-options: nosniff" in lines, f"{path} may be sniffed")
        tally.expect(b"cache-control: no-store" in lines, f"{path} may be kept")
        for name in (b"server:", b"x-powered-by:", b"access-control-", b"set-cookie:"):
            tally.expect(not any(line.startswith(name) for line in lines), f"{path} has {name!r}")
        tally.expect(
            str(scene.repository).encode() not in answer.body, f"{path} tells where models lie"
        )
    for method in _METHODS:
        answer = connection.ask(request(method, "/v2", b"", (b"x-echo: reflected",)))
        connection.close()
        _refused(tally, answer, f"{method} /v2")
        tally.expect(b"reflected" not in answer.body, f"{method} reflects headers")


def _forgotten_inventory(tally: Tally, connection: Connection) -> None:
    for path in _UNKNOWN_PLACES:
        for method in ("GET", "POST"):
            _refused(tally, connection.ask(request(method, path)), f"{method} {path}")
    body = post_json("/v2/models/add_sub/infer", {"inputs": []})
    tally.check_answer(connection.ask(body).status, b"", "no inputs")


def _restricted_rpcs(scene: Scene, tally: Tally) -> None:
    secret = scene.secret
    key = "triton-grpc-protocol-x-attack-secret"
    with triton_grpc.InferenceServerClient(scene.server.grpc) as client:
        for headers in ({}, {key: secret[:-1]}, {"x-attack-secret": secret}, {key: ""}):
            for what, call in _rpcs(client):
                try:
                    call(headers)
                    tally.findings.append(f"{what} with {sorted(headers)} is let in")
                except InferenceServerException as error:
                    tally.note(error.status())
                    tally.expect(secret not in str(error), f"{what} tells the secret")
        client.get_model_repository_index(headers={key: secret})


def _rpcs(
    client: triton_grpc.InferenceServerClient,
) -> Iterator[tuple[str, Callable[[Mapping[str, str]], object]]]:
    yield "index", lambda headers: client.get_model_repository_index(headers=headers)
    yield "load", lambda headers: client.load_model("add_sub", headers=headers)
    yield "unload", lambda headers: client.unload_model("add_sub", headers=headers)
    yield "log settings", lambda headers: client.get_log_settings(headers=headers)
    yield "trace settings", lambda headers: client.get_trace_settings(headers=headers)
