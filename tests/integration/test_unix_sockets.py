# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose ports are Unix sockets, and a policy that knows the users of this machine."""

import os
import stat
from pathlib import Path

import tritonclient.grpc as triton_grpc

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.policed_server import PolicedServer


def test_both_protocols_are_served_to_the_users_that_the_policy_names(
    policed: PolicedServer, tmp_path: Path
) -> None:
    write_add_sub(tmp_path / "models", "add_sub")
    user = {"uid": os.getuid(), "subject": "me"}
    grants = [{"to": {"subjects": ["me"]}, "roles": ["infer", "metadata"]}]
    policy = {"authentication": {"unix_peers": [user]}, "grants": grants}
    server = policed.running
    assert server.http.startswith("unix:/")
    # That nothing is left of it at the end says the fixture.
    assert stat.S_IMODE(Path(server.http.removeprefix("unix:")).stat().st_mode) == 0o600
    assert server.grpc.startswith("unix:@")
    assert server.metrics.startswith("127.0.0.1:")
    with policed.governed(policy, tmp_path / "models"):
        connection = policed.connection()
        statuses = []
        for url in ("/v2/models/add_sub", "/v2/models/stats", "/v2/health/ready"):
            connection.request("GET", url)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        assert statuses == [200, 403, 200]
        with triton_grpc.InferenceServerClient(policed.grpc) as client:
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_grpc)))
