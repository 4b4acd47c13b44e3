# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the guard of an ingress costs: microseconds of CPU per call, the best of some rounds.

``python scripts/bench_access.py [--rounds N]``. Known credentials are those that were seen before;
a port that sees a head again does not even ask. New ones pay for the check itself.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from backends.api.errors import TritonError
from deployments.access.contracts import Headers, Peer, Role
from deployments.access.guard import make_guard
from deployments.access.keys import hash_made, make_key

CALLS = 20_000
ISSUER = "https://issuer.example"
HTTP = Peer("http")
# As tritonclient and a proxy before it send them.
HEADERS: list[tuple[bytes, bytes]] = [
    (b"host", b"localhost:8000"),
    (b"user-agent", b"python-httpx/0.28.1"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"content-type", b"application/octet-stream"),
    (b"inference-header-content-length", b"210"),
    (b"content-length", b"338"),
]


def measure(call: Callable[[], object], rounds: int, calls: int = CALLS) -> float:
    """Return microseconds of CPU per call."""
    best_s = float("inf")
    for _ in range(rounds):
        began_s = time.process_time()
        for _ in range(calls):
            call()
        best_s = min(best_s, time.process_time() - began_s)
    return best_s / calls * 1e6


def fresh_calls(calls: list[Callable[[], object]]) -> Callable[[], object]:
    """Return what calls each of some once."""
    left = iter(calls)

    def call() -> object:
        return next(left)()

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    signers: dict[str, Any] = {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "RS256": rsa.generate_private_key(65537, 2048),
    }
    algorithms: dict[str, Any] = {
        "ES256": jwt.algorithms.ECAlgorithm,
        "RS256": jwt.algorithms.RSAAlgorithm,
    }
    jwks = [
        {**algorithms[name].to_jwk(key.public_key(), as_dict=True), "kid": name}
        for name, key in signers.items()
    ]
    key = make_key(bytes(32))
    policy = {
        "authentication": {
            "api_keys": {"keys": [{"subject": "robot", "hash": hash_made(key)}]},
            "jwt": [{"issuer": ISSUER, "audience": "manta", "jwks_file": "jwks.json"}],
        },
        "grants": [{"to": {"authenticated": True}, "roles": ["infer"], "models": ["simple*"]}],
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "jwks.json").write_text(json.dumps({"keys": jwks}))
        file = Path(folder, "policy.yaml")
        file.write_text(yaml.safe_dump(policy))
        guard = make_guard(str(file), has_audit=False)
    now_s = time.time()

    def token(name: str, number: int = 0) -> bytes:
        claims = {"iss": ISSUER, "aud": "manta", "sub": f"user-{number}", "exp": now_s + 3600}
        claims |= {"email": "somebody@example.com", "groups": ["a", "b", "c"], "scope": "x" * 300}
        return jwt.encode(claims, signers[name], name, headers={"kid": name}).encode()

    def identify(*more: tuple[bytes, bytes]) -> Callable[[], object]:
        headers: Headers = [*HEADERS, *more]

        def call() -> object:
            try:
                return guard.identify(headers, HTTP)
            except TritonError as error:
                return error

        return call

    known_key = identify((b"x-api-key", key.encode()))
    print(f"known key, us: {measure(known_key, rounds):.2f}")
    for name in signers:
        known = identify((b"authorization", b"Bearer " + token(name)))
        print(f"known token, {name}, us: {measure(known, rounds):.2f}")
    print(f"no credentials, us: {measure(identify(), rounds):.2f}")
    bad = identify((b"x-api-key", b"mk_wrong"))
    print(f"known bad key, us: {measure(bad, rounds):.2f}")
    rights = guard.identify([(b"x-api-key", key.encode())], HTTP)
    may = measure(lambda: rights.may(Role.INFER, "simple"), rounds)
    print(f"known decision about a model, us: {may:.2f}")
    for name in signers:
        fresh = [identify((b"authorization", b"Bearer " + token(name, n))) for n in range(300)]
        print(f"new token, {name}, us: {measure(fresh_calls(fresh), 1, len(fresh)):.0f}")


if __name__ == "__main__":
    main()
