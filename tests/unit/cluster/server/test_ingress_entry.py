# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A replica finds its own release in a process of Serve, which has another one in its path."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

from ray import cloudpickle

from cluster.server import ingress_entry

_INGRESS = """
class Ingress:
    async def __init__(self, name):
        self.name = name

    async def check_health(self):
        print("healthy", self.name, {release!r}, flush=True)

    async def drain(self):
        print("drained", flush=True)
"""
_REPLICA = """
import asyncio, pickle, sys
from pathlib import Path

made, root, pickled = pickle.loads(Path(sys.argv[1]).read_bytes())

async def serve():
    replica = made.__new__(made)
    await replica.__init__(root, pickled)
    await replica.check_health()
    await replica.__del__()
    made.__del__ = None
    assert "cluster.server" not in sys.modules

asyncio.run(serve())
"""


def release(folder: Path, name: str) -> Path:
    """Write packages that have an ingress and nothing else."""
    for package in ("cluster", "deployments"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
    (folder / "deployments/ingress.py").write_text(_INGRESS.format(release=name))
    return folder


def test_a_replica_runs_the_ingress_of_its_release_whatever_its_process_finds(
    tmp_path: Path,
) -> None:
    old, new = release(tmp_path / "old", "old"), release(tmp_path / "new", "new")
    cloudpickle.register_pickle_by_value(ingress_entry)
    content = tmp_path / "replica.pickle"
    arguments = pickle.dumps(("front",))
    content.write_bytes(cloudpickle.dumps((ingress_entry.Ingress, str(new), arguments)))
    (tmp_path / "replica.py").write_text(_REPLICA)
    done = subprocess.run(
        [sys.executable, tmp_path / "replica.py", content],
        env=os.environ | {"PYTHONPATH": str(old)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["healthy front new", "drained"]
