# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `manta check` says of generated models is what a server says when it loads them."""

import os
from pathlib import Path

import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.options.parsing import from_mapping
from cluster.tools.check.model import Verdict
from cluster.tools.check.repository import check_repositories
from tests.support.broken_repositories import generated, write_repository
from tests.support.server import RunningServer

# 300 in ``make test-all``.
COUNT = int(os.environ.get("MANTA_CHECK_MODELS", "15"))
# On a machine that is busy with other things, too.
LOAD_TIMEOUT_S = 900.0


def outcomes(repository: Path, names: list[str]) -> dict[str, str]:
    """Load and unload each model; return why it failed, empty if it did not."""
    found = {}
    server = RunningServer(
        repository, "--model-control-mode=explicit", "--instance-heartbeat-timeout-secs=0"
    )
    try:
        with triton_http.InferenceServerClient(
            server.http, network_timeout=LOAD_TIMEOUT_S, connection_timeout=LOAD_TIMEOUT_S
        ) as client:
            for name in names:
                try:
                    client.load_model(name)
                    found[name] = ""
                    client.unload_model(name, unload_dependents=True)
                except InferenceServerException as error:
                    found[name] = error.message()
    finally:
        code = server.terminate()
    assert code == 0
    return found


def is_agreed(verdict: Verdict, reason: str) -> bool:
    """Whether a verdict is right; models that complete their config by code may fail besides."""
    if verdict.loads and not verdict.is_complete:
        return True
    return verdict.loads == (not reason)


@pytest.mark.timeout(3600)
def test_the_verdict_is_that_of_a_load(tmp_path: Path) -> None:
    models = write_repository(tmp_path, generated(COUNT))
    options = from_mapping({"model_repository": str(tmp_path)})
    verdicts = check_repositories(options, gpu_count=0).verdicts
    found = outcomes(tmp_path, list(models))
    different = {
        name: (model.kind, model.faults, found[name], verdicts[name].reason)
        for name, model in models.items()
        if not is_agreed(verdicts[name], found[name])
    }
    assert not different
    # Both kinds occur.
    assert {verdict.loads for verdict in verdicts.values()} == {True, False}
