# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server with an access policy, which modules share: each puts its own in the file's place."""

import contextlib
import http.client
import io
import json
import secrets
import ssl
import urllib.error
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc

from deployments.access.keys import hash_made, make_key
from tests.support.certificates import Certificates
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought
from tests.support.unix_sockets import connection_to, grpc_target

# Who brings models and takes them away. Of each policy, and with another key in each, so that
# the server has taken the policy when it lets the key in.
_KEEPER = "keeper"
_KEEPERS_ROLES = ("control", "metadata")


class PolicedServer:
    """A server without models, whose policy lets nobody in but who keeps it.

    Args:
        folder: For its models and its policy.
        flags: Further flags.
        pems: Certificates of both ports; None for ports without TLS.

    Attributes:
        folder: The folder; ``policy`` is the policy's file, ``repository`` that of models.
        running: The server.
        pems: As given.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        pems: Certificates | None = None,
    ) -> None:
        self.folder = folder
        self.policy = folder / "policy.yaml"
        self.pems = pems
        self._key = ""
        # What users have shown, which nobody may read in the log.
        self._shown: set[str] = set()
        if pems is not None:
            self._shown.add(pems.server[1].read_text().splitlines()[1])
        self._write({})
        self.repository = folder / "models"
        self.repository.mkdir()
        self.running = RunningServer(
            self.repository,
            "--model-control-mode=explicit",
            f"--access-policy={self.policy}",
            *flags,
        )

    def connection(
        self, timeout_s: float = 30.0, certificate: str = ""
    ) -> http.client.HTTPConnection:
        """Return a connection of a client that has one of the certificates, or none."""
        if self.pems is None:
            return connection_to(self.running.http, timeout_s)
        context = ssl.create_default_context(cafile=str(self.pems.root))
        if certificate:
            context.load_cert_chain(*getattr(self.pems, certificate))
        return http.client.HTTPSConnection(self.running.http, timeout=timeout_s, context=context)

    def channel(self, certificate: str = "") -> grpc.Channel:
        """Return a channel of a client that has one of the certificates, or none."""
        if self.pems is None:
            return grpc.insecure_channel(self.grpc)
        pair = getattr(self.pems, certificate) if certificate else (None, None)
        own, key = (path and path.read_bytes() for path in pair)
        credentials = grpc.ssl_channel_credentials(self.pems.root.read_bytes(), key, own)
        return grpc.secure_channel(self.grpc, credentials, [("grpc.use_local_subchannel_pool", 1)])

    @property
    def grpc(self) -> str:
        """The target of gRPC's clients."""
        return grpc_target(self.running.grpc)

    @contextlib.contextmanager
    def governed(
        self,
        policy: Mapping[str, Any],
        models: Path,
        shown: Iterable[str] = (),
    ) -> Iterator[None]:
        """Have a policy hold, and a module's models served, while the block runs.

        Args:
            policy: The policy. The block may write others into the file.
            models: A folder of models.
            shown: What the block's users show to be let in.

        Raises:
            AssertionError: Something that users have shown is in the log; and as `brought`.
        """
        self._shown.update(shown)
        self.take(policy)
        with brought(self, models):
            try:
                yield
            finally:
                key = self._key
                self.take({}, key)
        self.check_log()

    def take(self, policy: Mapping[str, Any], key: str = "") -> None:
        """Have the server take a policy, and wait until it has."""
        self._write(policy, key)
        until(self._is_taken, "the policy is taken")

    def post(self, path: str, body: dict[str, object], timeout_s: float) -> Any:
        """Send JSON as who brings models; as `RunningServer.post`."""
        with contextlib.closing(self.connection(timeout_s)) as connection:
            connection.request("POST", path, json.dumps(body), {"x-api-key": self._key})
            answer = connection.getresponse()
            text = io.BytesIO(answer.read())
        if answer.status != 200:
            raise urllib.error.HTTPError(path, answer.status, answer.reason, answer.headers, text)
        return text

    def check_log(self) -> None:
        """See that nothing which any user has shown is in the log.

        Raises:
            AssertionError: Something is.
        """
        log = "".join(self.running.lines)
        assert self._shown
        assert not [each for each in self._shown if each in log]

    def close(self) -> None:
        """End the server."""
        assert self.running.terminate() == 0
        self.check_log()

    def _is_taken(self) -> bool:
        """Whether the server lets the present key in."""
        try:
            self.post("/v2/repository/index", {}, 30).close()
        except urllib.error.HTTPError as error:
            error.close()
            return False
        return True

    def _write(self, policy: Mapping[str, Any], key: str = "") -> None:
        self._key = key or make_key(secrets.token_bytes(32))
        self._shown.add(self._key)
        sections = dict(policy.get("authentication", {}))
        keys = dict(sections.get("api_keys", {}))
        keys["keys"] = [*keys.get("keys", ()), {"subject": _KEEPER, "hash": hash_made(self._key)}]
        grant = {"to": {"subjects": [_KEEPER]}, "roles": [*_KEEPERS_ROLES]}
        whole = {
            **policy,
            "authentication": {**sections, "api_keys": keys},
            "grants": [*policy.get("grants", ()), grant],
        }
        # Half a file may be a policy, too.
        written = self.policy.with_suffix(".new")
        written.write_text(json.dumps(whole))
        written.replace(self.policy)
