# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What changes under a running server: keys, the policy, an issuer's keys; and what it writes."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import write_add_sub
from tests.support.access import ISSUER, TokenIssuer, key_entry, made_key, write_policy
from tests.support.loopback_server import LoopbackServer, QuietHandler
from tests.support.policed_server import PolicedServer
from tests.support.server import until
from tests.support.unix_sockets import connection_to

GRANTS = [{"to": {"authenticated": True}, "roles": ["metadata"], "models": ["open"]}]


class Issuer(LoopbackServer):
    """Serves the keys of an issuer."""

    def __init__(self) -> None:
        super().__init__(_Keys)
        self.signer = TokenIssuer()


class _Keys(QuietHandler):
    here: Issuer

    def respond(self) -> None:
        self.answer(200, self.here.signer.jwks())


class Guarded:
    """A server with a policy, an issuer and an audit log."""

    def __init__(self, policed: PolicedServer, folder: Path, issuer: Issuer) -> None:
        self.policed, self.server, self.issuer = policed, policed.running, issuer
        self.audit = folder / "audit.jsonl"

    def write(self, *keys: dict[str, Any]) -> None:
        """Have the policy know these keys."""
        write_policy(self.policed.folder, self.policy(*keys))

    def policy(self, *keys: dict[str, Any]) -> dict[str, Any]:
        """Return the policy that knows these keys."""
        issuer = {
            "issuer": ISSUER,
            "audience": "manta",
            "least_refresh_s": 1,
            "jwks_url": f"{self.issuer.url}/keys",
        }
        return {
            "authentication": {"api_keys": {"keys": list(keys)}, "jwt": [issuer]},
            "grants": GRANTS,
            "public": ["health", "metrics"],
            "audit": {"file": str(self.audit)},
        }

    def status(self, *, model: str = "open", **headers: str) -> int:
        """What comes of asking for a model's metadata."""
        return self._get(self.server.http, f"/v2/models/{model}", headers)[0]

    def status_of_key(self, name: str, model: str = "open") -> int:
        return self.status(model=model, **{"X-API-Key": made_key(name)})

    def status_of_token(self, signer: TokenIssuer) -> int:
        token = signer.token(exp=time.time() + 600, iat=None).decode()
        return self.status(Authorization=f"Bearer {token}")

    def metric(self, name: str) -> float:
        """The value of a metric with its labels."""
        text = self._get(self.server.metrics, "/metrics", {})[1].decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1

    def _get(self, address: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = connection_to(address)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text


@pytest.fixture(scope="module")
def guarded(policed: PolicedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("access")
    write_add_sub(folder / "models", "open")
    keys = [made_key(name) for name in ("robot", "next", "nobody")]
    with Issuer() as issuer:
        here = Guarded(policed, folder, issuer)
        with policed.governed(here.policy(key_entry("robot")), folder / "models", shown=keys):
            yield here
    assert not any(key in here.audit.read_text() for key in keys)


def test_a_key_is_rotated_without_a_restart(guarded: Guarded) -> None:
    assert guarded.status_of_key("robot") == 200
    assert guarded.status_of_key("next") == 401
    revision = guarded.metric("manta_access_policy_revision")
    guarded.write(key_entry("robot"), {**key_entry("next"), "subject": "robot"})
    until(lambda: guarded.status_of_key("next") == 200, "the new key is taken")
    assert guarded.status_of_key("robot") == 200
    guarded.write(key_entry("robot", revoked=True), {**key_entry("next"), "subject": "robot"})
    until(lambda: guarded.status_of_key("robot") == 401, "the old key is refused")
    assert guarded.status_of_key("next") == 200
    assert guarded.metric("manta_access_policy_revision") >= revision + 2


def test_a_policy_that_is_wrong_changes_nothing(guarded: Guarded) -> None:
    refused = 'manta_access_policy_reloads_total{result="refused"}'
    before, policy = guarded.metric(refused), guarded.policed.policy
    text = policy.read_text()
    policy.write_text("grants: nobody")
    until(lambda: guarded.metric(refused) == before + 1, "the policy is refused")
    assert guarded.status_of_key("next") == 200
    assert guarded.status_of_key("nobody") == 401
    policy.write_text(text)
    said = "grants: got 'nobody', expected a list"
    until(lambda: any(said in line for line in guarded.server.lines), "the log says why")


def test_an_issuers_keys_are_fetched_and_fetched_again(guarded: Guarded) -> None:
    old, new = guarded.issuer.signer, TokenIssuer("two")
    until(lambda: guarded.status_of_token(old) == 200, "keys are fetched")
    guarded.issuer.signer = new
    until(lambda: guarded.status_of_token(new) == 200, "the new keys are fetched")
    assert guarded.status_of_token(old) == 401


def test_denials_are_in_the_audit_log(guarded: Guarded) -> None:
    guarded.audit.write_text("")
    assert guarded.status_of_key("next", model="other") == 403
    assert guarded.status_of_key("nobody") == 401

    def rows() -> dict[str, dict[str, Any]]:
        lines = guarded.audit.read_text().splitlines(keepends=True)
        read = [json.loads(line) for line in lines if line.endswith("\n")]
        return {row["outcome"]: row for row in read}

    until(lambda: rows().keys() == {"denied", "unauthenticated"}, "the lines are written")
    denied = rows()["denied"]
    assert (denied["subject"], denied["method"], denied["model"]) == ("robot", "api-key", "other")
    assert rows()["unauthenticated"]["subject"] == ""
    assert guarded.metric('manta_access_denied_total{protocol="http"}') >= 1
