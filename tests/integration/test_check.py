# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `manta check` says of generated models is what a server says when it loads them."""

from pathlib import Path

import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.commands.check.model import Verdict
from cluster.commands.check.repository import check_repositories
from cluster.options.parsing import from_mapping
from tests.support.broken_repositories import generated, write_repository
from tests.support.gates import amount
from tests.support.server import RunningServer
from tests.support.shared_server import brought

# 300 in ``make test-all``.
COUNT = amount(15, 60, "MANTA_CHECK_MODELS")
# On a machine that is busy with other things, too.
LOAD_TIMEOUT_S = 180.0


def outcomes(server: RunningServer, names: list[str]) -> dict[str, str]:
    """Load and unload each model; return why it failed, empty if it did not."""
    found = {}
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
            except TimeoutError:
                raise AssertionError(
                    f"model '{name}' was neither loaded nor refused in {LOAD_TIMEOUT_S:.0f} s"
                ) from None
    return found


def is_agreed(verdict: Verdict, reason: str) -> bool:
    """Whether a verdict is right; models that complete their config by code may fail besides."""
    if verdict.loads and not verdict.is_complete:
        return True
    return verdict.loads == (not reason)


@pytest.mark.timeout(max(600, 12 * COUNT))
def test_the_verdict_is_that_of_a_load(surface: RunningServer, tmp_path: Path) -> None:
    models = write_repository(tmp_path, generated(COUNT))
    options = from_mapping({"model_repository": str(tmp_path)})
    verdicts = check_repositories(options, gpu_count=0).verdicts
    with brought(surface, tmp_path, load=()):
        found = outcomes(surface, list(models))
    different = {
        name: (model.kind, model.faults, found[name], verdicts[name].reason)
        for name, model in models.items()
        if not is_agreed(verdicts[name], found[name])
    }
    assert not different
    # Both kinds occur.
    assert {verdict.loads for verdict in verdicts.values()} == {True, False}
