# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A repository agent of another package, which writes down what it hears."""

import os
from pathlib import Path

import tritonclient.http as triton_http

_AGENT = """
from pathlib import Path

class Noting:
    changes_files = False

    def act(self, action, model):
        with Path(model.parameters["log"]).open("a") as log:
            log.write(f"{action.value}\\n")
"""


def install_own_agent(folder: Path) -> dict[str, str]:
    """Write a distribution with an agent; return an environment that has it."""
    info = folder / "noting-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "noting.py").write_text(_AGENT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[manta.repository_agents]\nnoting = noting:Noting\n")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def told(client: triton_http.InferenceServerClient, log: Path, *actions: str) -> bool:
    """Whether an agent is told of these actions; the last may come after the client's answer."""
    for _ in range(10_000):
        if log.exists() and log.read_text().split() == list(actions):
            return True
        client.is_server_live()
    return False
