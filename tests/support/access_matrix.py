# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every route and RPC, and callers with every kind of credentials, for one policy."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from grpc_reflection.v1alpha import reflection_pb2
from tritonclient.grpc import service_pb2

from deployments.access.keys import hash_made, make_key
from deployments.grpc.kserve.service import PATHS
from deployments.http.kserve.application import HttpIngress
from deployments.http.server.routes import RoutedPath
from tests.support.access import AUDIENCE, ISSUER, TokenIssuer
from tests.support.http_plane import FakePlane

LIMITED_MODEL = "open"

# What a pattern of a path may have, and what it is here.
_PARTS = (
    (r"(?:/versions/(?P<version>[0-9]+))?", ""),
    (r"(?:/(?P<repository>[^/]+))?", ""),
    (r"(?:/models/(?P<name>[^/]+))?", "/models/{}"),
    (r"(?:/region/(?P<name>[^/]+))?", "/region/{}"),
    (r"(?P<name>[^/]+)", "{}"),
    (r"\.", "."),
)


@dataclass(frozen=True)
class Asked:
    """A request of a route.

    Attributes:
        method: Its method.
        path: With ``{}`` for a model's or region's name.
        category: Among Triton's restricted APIs.
    """

    method: str
    path: str
    category: str

    @property
    def is_of_model(self) -> bool:
        return "{}" in self.path and self.category != "shared-memory"


def http_requests() -> list[Asked]:
    """Every route with every method, as the ingress's own table has them."""
    found = []
    for route in HttpIngress(FakePlane())._routes:
        described: RoutedPath = route.described()
        path = described.pattern
        for part, given in _PARTS:
            path = path.replace(part, given)
        assert re.fullmatch(described.pattern, path.format("m")), described.pattern
        found += [Asked(method, path, described.category) for method in described.methods]
    return found


def grpc_request(path: bytes, model: str) -> bytes:
    """A message that an RPC takes, about a model where it is about one."""
    rpc = path.rpartition(b"/")[2].decode()
    if rpc in ("Check", "Watch"):
        return b""
    if rpc == "ServerReflectionInfo":
        listing = reflection_pb2.ServerReflectionRequest(list_services="")
        return bytes(listing.SerializeToString())
    if path.startswith(b"/manta.v1.Rollouts/"):
        # The field model_name of docs/rollouts.proto.
        return bytes((0x0A, len(model))) + model.encode()
    name = "ModelInfer" if rpc == "ModelStreamInfer" else rpc
    message: Any = getattr(service_pb2, f"{name}Request")()
    for field in ("name", "model_name"):
        if field in message.DESCRIPTOR.fields_by_name:
            setattr(message, field, model)
    encoded: bytes = message.SerializeToString()
    return encoded


def names_model(path: bytes) -> bool:
    """Whether an RPC is about one model, of which `grpc_request` tells."""
    return b"Memory" not in path and grpc_request(path, "a") != grpc_request(path, "b")


assert len(PATHS) > 20


@dataclass(frozen=True)
class Caller:
    """Credentials as a client shows them.

    Attributes:
        name: Which they are.
        headers: What they add to requests, names in lower case.
        certificate: Name of the pair of files in `Certificates`; empty for none.
        is_valid: Whether somebody is meant.
        is_limited: Whether that is somebody with all roles, but for one model.
    """

    name: str
    headers: tuple[tuple[str, str], ...] = ()
    certificate: str = ""
    is_valid: bool = False
    is_limited: bool = False


def make_policy(folder: Path) -> tuple[dict[str, Any], list[Caller]]:
    """Return a policy, whose keys of tokens are in the folder, and callers of each kind."""
    keys = {
        name: make_key(name.encode().ljust(32, b"-")) for name in ("all", "some", "late", "old")
    }
    stored = [
        {"subject": f"key-{name}", "hash": hash_made(key)}
        | ({"expires": "2020-01-01T00:00:00Z"} if name == "late" else {})
        | ({"revoked": True} if name == "old" else {})
        for name, key in keys.items()
    ]
    issuer = TokenIssuer("good")
    (folder / "jwks.json").write_bytes(issuer.jwks())
    policy = {
        "authentication": {
            "api_keys": {"keys": stored},
            "jwt": [
                {
                    "issuer": ISSUER,
                    "audience": [AUDIENCE],
                    "algorithms": ["ES256"],
                    "jwks_file": str(folder / "jwks.json"),
                }
            ],
            "certificates": [{"san": "cn:client", "subject": "certificate-all"}],
        },
        "grants": [
            {"to": {"subjects": ["*-all"]}, "roles": [*_ROLES]},
            {"to": {"subjects": ["*-some"]}, "roles": [*_ROLES], "models": [LIMITED_MODEL]},
        ],
    }
    return policy, [
        Caller("nobody"),
        *_key_callers(keys),
        *_token_callers(issuer),
        Caller("certificate of nobody known", certificate="server"),
        Caller("valid certificate", certificate="client", is_valid=True),
    ]


_ROLES = (
    *("infer", "metadata", "control", "settings", "statistics", "shared-memory"),
    *("health", "metrics"),
)


def _key_callers(keys: dict[str, str]) -> list[Caller]:
    def caller(name: str, key: str, **traits: Any) -> list[Caller]:
        return [
            Caller(f"{name} key", (("x-api-key", key),), **traits),
            Caller(f"{name} key as bearer", (("authorization", f"Bearer {key}"),), **traits),
        ]

    return [
        *caller("bad", make_key(b"?" * 32)),
        *caller("expired", keys["late"]),
        *caller("revoked", keys["old"]),
        *caller("valid", keys["all"], is_valid=True),
        *caller("limited", keys["some"], is_valid=True, is_limited=True),
    ]


def _token_callers(good: TokenIssuer) -> list[Caller]:
    now_s = int(time.time())

    def caller(
        name: str, issuer: TokenIssuer = good, caller_traits: Any = None, **claims: Any
    ) -> Caller:
        given = {"sub": "token-all", "iat": now_s - 3600, "exp": now_s + 3600, **claims}
        shown = (("authorization", f"Bearer {issuer.token(**given).decode()}"),)
        return Caller(f"{name} token", shown, **(caller_traits or {}))

    nothing = jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "token-all"}, "", "none")
    return [
        Caller("unsigned token", (("authorization", f"Bearer {nothing}"),)),
        Caller("broken token", (("authorization", "Bearer e30.e30.AAAA"),)),
        caller("expired", exp=now_s - 3600),
        caller("wrong audience", aud="another"),
        caller("wrong issuer", iss="https://another.test"),
        caller("withdrawn key's", TokenIssuer("withdrawn")),
        caller("valid", caller_traits={"is_valid": True}),
        caller("limited", caller_traits={"is_valid": True, "is_limited": True}, sub="token-some"),
    ]
