# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray nodes on one machine, each `ray start --block` in a process of its own, as in a pod."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import psutil
from ray import _raylet
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from tests.support.server import ROOT, title_of, until

STORE_BYTES = 100 * 2**20
# Ray's own processes on each node, which are there without Manta.
_RAY_ITSELF = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
_TITLES = ("ray::", "manta: ")


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node.

    Attributes:
        name: Its label ``node``.
        node_id: Ray's id.
        process: What `ray start --block` runs in.
    """

    name: str
    node_id: str
    process: subprocess.Popen[bytes]

    @property
    def is_gone(self) -> bool:
        """Whether the node has ended; `ray start --block` outlives a raylet that ends by itself."""
        return not any(each.name() == "raylet" for each in self._tree())

    def workers(self, title: str = "") -> list[psutil.Process]:
        """Return the processes of actors on the node whose title holds a text."""
        return [each for each in self._tree() if is_worker(each, title)]

    def _tree(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def sigterm(self) -> None:
        """Have the node drain and end, as the deletion of its pod does."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all processes of the node at once."""
        kill_tree(self.process)


def is_worker(process: psutil.Process, title: str = "") -> bool:
    """Whether a process is a live actor, or a task, and has a title."""
    found = title_of(process)
    return found.startswith(_TITLES) and not found.startswith(_RAY_ITSELF) and title in found


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started, at once."""
    try:
        top = psutil.Process(process.pid)
        tree = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        tree = []
    # Nobody starts anything again while the others end.
    for how in (psutil.Process.suspend, psutil.Process.kill):
        for each in tree:
            with contextlib.suppress(psutil.Error):
                how(each)
    psutil.wait_procs(tree, timeout=10)
    process.wait(10)


def started_head(**arguments: Any) -> Cluster:
    """Start a head, of this process.

    Its dashboard looks for a port itself: Ray leaves a socket open where its usual one is taken, as
    it is while another head runs.
    """
    head = {"object_store_memory": STORE_BYTES, "dashboard_port": None, **arguments}
    return Cluster(initialize_head=True, head_node_args=head)


class RayNodes:
    """A head, and nodes that join it.

    Args:
        head_cpus: What the head offers for instances.
    """

    def __init__(self, head_cpus: int = 2) -> None:
        self._environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self._cluster = started_head(num_cpus=head_cpus)
        self._nodes: list[RayNode] = []
        self.address: str = self._cluster.address
        head: Any = self._cluster.head_node
        self.head_id: str = head.node_id

    def all(self) -> list[RayNode]:
        """Return the nodes that are there, without the head."""
        return [node for node in self._nodes if not node.is_gone]

    def table(self) -> dict[str, dict[str, Any]]:
        """Return what Ray tells of its live nodes, by id."""
        rows = self._cluster.global_state.node_table()
        return {row["NodeID"]: row for row in rows if row["Alive"]}

    def add(
        self,
        name: str,
        *,
        cpus: int = 1,
        resources: dict[str, float] | None = None,
        labels: dict[str, str] | None = None,
        drain_s: int = 30,
    ) -> RayNode:
        """Start a node and wait until Ray knows it.

        Args:
            name: Its label ``node``.
            cpus: What it offers.
            resources: The same.
            labels: Further labels.
            drain_s: How long it drains when it gets SIGTERM.
        """
        all_labels = ",".join(f"{k}={v}" for k, v in ({"node": name} | (labels or {})).items())
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
                f"--address={self.address}",
                f"--num-cpus={cpus}",
                f"--resources={json.dumps(resources or {})}",
                f"--labels={all_labels}",
                f"--object-store-memory={STORE_BYTES}",
                "--dashboard-agent-listen-port=0",
                *("--min-worker-port=0", "--max-worker-port=0", "--disable-usage-stats"),
            ],
            stdout=subprocess.DEVNULL,
            env=self._environment | {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain_s)},
        )
        found: list[str] = []

        def is_there() -> bool:
            assert process.poll() is None, f"node {name} did not start"
            found[:] = [
                node_id
                for node_id, row in self.table().items()
                if row["Labels"].get("node") == name
            ]
            return bool(found)

        until(is_there, f"node {name} is not there")
        node = RayNode(name, found[0], process)
        self._nodes.append(node)
        return node

    def drain(self, node: RayNode, deadline_s: float) -> None:
        """Have a node drain as `ray drain-node` does; it may be killed once the time is over."""
        gcs: Any = _raylet
        messages: Any = autoscaler_pb2
        accepted, why = gcs.GcsClient(address=self.address).drain_node(
            node.node_id,
            messages.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            "a test",
            int((time.time() + deadline_s) * 1000),
        )
        assert accepted, why

    def shutdown(self) -> None:
        """End all nodes."""
        for node in self._nodes:
            node.kill()
        self._cluster.shutdown()
