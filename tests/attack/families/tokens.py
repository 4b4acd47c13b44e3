# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Forged, foreign and old credentials, at a server that has an access policy."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.attack.forged_tokens import Signed, forged_tokens, write_policy
from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, request
from tests.support.server import RunningServer

_MODEL: Final = "/v2/models/add_sub"
_GUESSES: Final = 300


def attack_credentials(scene: Scene, tally: Tally) -> None:
    """Ask with each credential over HTTP, and with some over gRPC."""
    with tempfile.TemporaryDirectory(prefix="manta-attack-policy-") as folder:
        signed = write_policy(Path(folder))
        server = RunningServer(scene.repository, f"--access-policy={signed.policy}")
        try:
            _over_http(scene, tally, server, signed)
            _over_grpc(tally, server, signed)
            printed = "".join(server.lines)
            tally.expect(signed.key not in printed, "the server prints a key")
            tally.expect("Traceback" not in printed, f"a traceback: {printed[-600:]}")
        finally:
            server.terminate()


def bad_headers(signed: Signed) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Yield what nobody is let in with."""
    for what, token in forged_tokens(signed):
        yield what, (b"authorization: Bearer " + _printable(token),)
    key, good = signed.key.encode(), signed.token.encode()
    for what, given in (
        ("expired key", signed.late_key.encode()),
        ("revoked key", signed.revoked_key.encode()),
        ("key cut short", key[:-1]),
        ("key with more", key + b"0"),
        ("key in other letters", key.swapcase()),
        ("key as a pattern", b"*"),
        ("no key", b""),
        ("a huge key", b"k" * 7000),
        ("quotes", b"' OR '1'='1"),
        ("bytes", b"\xff\xfe\x80"),
    ):
        yield what, (b"x-api-key: " + given,)
        yield f"{what} as a token", (b"authorization: Bearer " + given,)
    for scheme in (b"", b"Basic ", b"Digest ", b"Bearer", b"Token ", b"Bearer,", b"Negotiate "):
        yield f"scheme {scheme!r}", (b"authorization: " + scheme + good,)
    yield "a token as a cookie", (b"cookie: authorization=" + good,)
    yield "a key as a token of another name", (b"x-api-keys: " + key,)
    yield "an identity of a proxy's", (b"x-forwarded-user: who", b"x-forwarded-for: 127.0.0.1")
    yield "a certificate of a proxy's", (b"x-ssl-client-cert: x", b"x-forwarded-client-cert: x")


def _printable(token: str) -> bytes:
    return bytes(byte for byte in token.encode() if 0x20 < byte < 0x7F)


def _over_http(scene: Scene, tally: Tally, server: RunningServer, signed: Signed) -> None:
    texts = set()
    with Connection(server.http) as connection:
        for what, headers in bad_headers(signed):
            for path in (_MODEL, "/v2/models/none"):
                answer = connection.ask(request("GET", path, b"", headers))
                tally.note(answer.status)
                # 431: larger than any head may be. Its sender may meet the end of the connection,
                # 0, before it has sent all.
                allowed = {0, 401, 403, 431} if "huge" in what else {401, 403, 431}
                tally.expect(answer.status in allowed, f"{what} at {path}: {answer.status}")
                if answer.status == 401:
                    texts.add(answer.body)
        tally.expect(len(texts) < 12, f"refusals tell too much: {texts}")
        for _ in range(_GUESSES):
            guess = b"x-api-key: " + scene.rng.randbytes(24).hex().encode()
            answer = connection.ask(request("GET", _MODEL, b"", (guess,)))
            tally.note(answer.status)
            tally.expect(answer.status in {401, 429}, f"a guess: {answer.status}")
        for good in (
            b"x-api-key: " + signed.key.encode(),
            b"authorization: Bearer " + signed.token.encode(),
        ):
            answer = connection.ask(request("GET", _MODEL, b"", (good,)))
            tally.expect(answer.status == 200, f"who is meant gets {answer.status} {answer.body!r}")
            _not_granted(tally, connection, good)


def _not_granted(tally: Tally, connection: Connection, good: bytes) -> None:
    """Who is known is not for that allowed all; a refusal does not tell what there is."""
    for method, path in (
        ("POST", "/v2/repository/models/{}/load"),
        ("POST", "/v2/repository/models/{}/unload"),
        ("GET", "/v2/models/{}/stats"),
        ("POST", "/v2/models/{}/infer"),
        ("POST", "/v2/models/{}/trace/setting"),
        ("GET", "/v2/logging"),
    ):
        answers = [
            connection.ask(request(method, path.format(name), b"", (good,)))
            for name in ("add_sub", "none")
        ]
        for answer in answers:
            tally.note(answer.status)
            tally.expect(answer.status == 403, f"{method} {path}: {answer.status}")
        tally.expect(
            answers[0].body == answers[1].body.replace(b"none", b"add_sub"),
            f"{path} tells whether a model exists",
        )


def _over_grpc(tally: Tally, server: RunningServer, signed: Signed) -> None:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        for what, token in forged_tokens(signed):
            headers = {"authorization": "Bearer " + _printable(token).decode()}
            try:
                client.get_model_metadata("add_sub", headers=headers)
                tally.findings.append(f"{what} is let in over gRPC")
            except InferenceServerException as error:
                tally.note(error.status())
        client.get_model_metadata("add_sub", headers={"authorization": f"Bearer {signed.token}"})
        client.get_model_metadata("add_sub", headers={"x-api-key": signed.key})
