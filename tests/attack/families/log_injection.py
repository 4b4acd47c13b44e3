# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Texts that would be lines of the log, or orders to the terminal of who reads it."""

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.attack.scene import LOG_LINE, Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, infer_document, post_json, request

_FORGED: Final = 'E0101 00:00:00.000000 1 forged.py:1] "forged"'
_TEXTS: Final = (
    f"x\n{_FORGED}",
    f"x\r{_FORGED}",
    f"x\r\n{_FORGED}",
    f"x\u2028{_FORGED}",
    f"x\x85{_FORGED}",
    f"x\x0b{_FORGED}",
    f"x\x0c{_FORGED}",
    "\x1b[2J\x1b[Hforged",
    "\x1b]0;forged\x07",
    "\x9b31mforged",
    "forged\u202edegrof",
    "forged\0forged",
    "forged\x08\x08\x08",
    "forged %s %d %(x)s {0} {x}",
    "forged ${jndi:ldap://127.0.0.1/x}",
)


def inject_into_logs(scene: Scene, tally: Tally) -> None:
    """Give each text wherever it might be logged, while the log is at its most talkative."""
    known = (scene.credential,)
    with Connection(scene.server.http) as connection:
        louder = post_json("/v2/logging", {"log_verbose_level": 1}, known)
        tally.expect(connection.ask(louder).status == 200, "the log is not verbose")
        for sent in _requests(scene):
            answer = connection.ask(sent)
            tally.check_answer(answer.status or 400, answer.body, repr(sent[:100]))
            tally.expect(b"forged" not in answer.head, f"in a header of the answer: {sent[:100]!r}")
        _by_rpc(scene, tally)
        connection.ask(post_json("/v2/logging", {"log_verbose_level": 0}, known))
    content = scene.log.read_bytes().decode("utf-8", "replace")
    for line in content.removesuffix("\n").split("\n"):
        tally.expect(LOG_LINE.match(line) is not None, f"no line of ours: {line[:200]!r}")
        tally.expect("forged.py:1]" not in line[:60], f"forged: {line[:200]!r}")
        tally.expect(line.isprintable(), f"unprintable: {line[:200]!r}")


def _requests(scene: Scene) -> Iterator[bytes]:
    known = (scene.credential,)
    for text in _TEXTS:
        name = quote(text, safe="")
        yield request("GET", f"/v2/models/{name}")
        yield request("POST", f"/v2/repository/models/{name}/load", b"{}", known)
        yield request("POST", f"/v2/repository/models/{name}/unload", b"{}", known)
        yield request("GET", f"/v2?{name}")
        yield post_json("/v2/models/add_sub/infer", infer_document() | {"id": text})
        broken = infer_document()
        broken["inputs"][0]["name"] = text
        yield post_json("/v2/models/add_sub/infer", broken)
        yield post_json("/v2/logging", {"log_format": text}, known)
        yield post_json(
            "/v2/systemsharedmemory/region/r/register", {"key": text, "offset": 0, "byte_size": 9}
        )
        config = json.dumps({"backend": text, "name": text})
        yield post_json(
            f"/v2/repository/models/{name}/load", {"parameters": {"config": config}}, known
        )
        yield request("GET", "/v2", b"", (b"user-agent: " + text.encode().replace(b"\n", b" "),))
        yield request("GET", "/v2", b"", (b"traceparent: " + name.encode(),))


def _by_rpc(scene: Scene, tally: Tally) -> None:
    headers = {"triton-grpc-protocol-x-attack-secret": scene.secret}
    with triton_grpc.InferenceServerClient(scene.server.grpc) as client:
        for text in _TEXTS:
            for call in (
                lambda t=text: client.get_model_metadata(t),
                lambda t=text: client.load_model(t, headers=headers),
                lambda t=text: client.load_model("add_sub", headers=headers, config=t),
                lambda t=text: client.register_system_shared_memory(t, t, 64),
            ):
                try:
                    call()  # type: ignore[no-untyped-call]
                    tally.note("OK")
                except InferenceServerException as error:
                    tally.note(error.status())
