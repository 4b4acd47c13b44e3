# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from cluster.server.serve_application import has_run_since_deployed


@pytest.mark.parametrize(
    ("state", "start_time_s", "expected"),
    [
        ("RUNNING", 11.0, True),
        ("PENDING_MIGRATION", 11.0, True),
        ("STARTING", 11.0, False),
        ("STOPPING", 11.0, False),
        ("RUNNING", 9.0, False),
    ],
)
def test_only_a_replica_of_this_deployment_that_runs_shows_that_it_has_run(
    state, start_time_s, expected
) -> None:
    replicas = [
        {"state": "STARTING", "start_time_s": 12.0},
        {"state": state, "start_time_s": start_time_s},
    ]
    details = {"last_deployed_time_s": 10.0}
    assert has_run_since_deployed(details, {"replicas": replicas}) is expected


def test_application_that_serve_does_not_know_has_not_run() -> None:
    assert not has_run_since_deployed({}, {})
