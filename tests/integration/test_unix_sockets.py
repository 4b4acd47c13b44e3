# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose ports are Unix sockets, and a policy that knows the users of this machine."""

import http.client
import json
import os
import secrets
import socket
import stat
from pathlib import Path

import tritonclient.grpc as triton_grpc

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.server import RunningServer


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def test_both_protocols_are_served_to_the_users_that_the_policy_names(tmp_path: Path) -> None:
    write_add_sub(tmp_path / "models", "add_sub")
    policy = tmp_path / "policy.yaml"
    user = {"uid": os.getuid(), "subject": "me"}
    grants = [{"to": {"subjects": ["me"]}, "roles": ["infer", "metadata"]}]
    policy.write_text(json.dumps({"authentication": {"unix_peers": [user]}, "grants": grants}))
    path, name = tmp_path / "http.sock", f"manta-{secrets.token_hex(8)}"
    server = RunningServer(
        tmp_path / "models",
        f"--http-address=unix:{path}",
        f"--grpc-address=unix:@{name}",
        "--unix-socket-mode=0600",
        f"--access-policy={policy}",
    )
    assert server.http == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.metrics.startswith("127.0.0.1:")
    connection = _Connection(path)
    statuses = []
    for url in ("/v2/models/add_sub", "/v2/models/stats", "/v2/health/ready"):
        connection.request("GET", url)
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    assert statuses == [200, 403, 200]
    with triton_grpc.InferenceServerClient(f"unix-abstract:{name}") as client:
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_grpc)))
    assert server.terminate() == 0
    assert not path.exists()
