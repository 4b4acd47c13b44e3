# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster as an operator starts it, whose head can be killed and started again.

The head and the worker node are on this machine with an address of loopback each. The head keeps
what the GCS knows in Redis, in the embedded RocksDB, or in memory only.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import psutil

from tests.support.free_ports import free_ports
from tests.support.server import ROOT, titled

HEAD_IP = "127.0.0.2"
WORKER_IP = "127.0.0.3"
_RAY = (sys.executable, "-c", "from ray.scripts.scripts import main; main()")
_COMMAND_TIMEOUT_S = 180.0
# In the environment of every process of a node: whose it is.
_MARK = "MANTA_TEST_NODE"
# What a joined Ray is started with; see docs/fault-tolerance.md.
SETTINGS = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "RAY_worker_niceness": "0",
    # A busy machine may take longer than the 10 s Ray gives a node.
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Else the nodes ask for the token of the machine, if it has one.
    "RAY_AUTH_MODE": "disabled",
    # Ray takes half a minute to miss a dead node unless told to look more often.
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
}


def on_node(node_ip: str) -> str:
    """Return a program that runs Manta, its driver on a node: Ray would choose the machine's."""
    return (
        "import sys, ray; ray.init(address=sys.argv.pop(1), namespace='manta',"
        f" log_to_driver=False, logging_level='ERROR', _node_ip_address='{node_ip}');"
        " from cluster.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )


ON_WORKER = on_node(WORKER_IP)


class HeadAndWorker:
    """A head and a worker node; the folder with their logs goes with them.

    Args:
        storage: "redis", "rocksdb" or "memory".
        settings: What the environment of both has besides `SETTINGS`.

    Attributes:
        address: Of the GCS.
    """

    def __init__(self, storage: str, settings: Mapping[str, str] | None = None) -> None:
        # Paths of Ray's sockets have to be short.
        self.folder = Path(tempfile.mkdtemp(prefix="manta-ray-"))
        # Ports that the system gives to nobody are still free for a second start.
        ports = free_ports(2)
        self._port, self._redis_port = ports.first, ports.last
        self.address = f"{HEAD_IP}:{self._port}"
        self._children: list[subprocess.Popen[bytes]] = []
        self._environment = {**os.environ, **SETTINGS, **(settings or {})}
        self._environment.pop("RAY_ADDRESS", None)
        self._head_environment = {**self._environment, **self._storage(storage)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all that was started."""
        for process in (*self.processes(HEAD_IP), *self.processes(WORKER_IP)):
            _kill(process)
        for child in self._children:
            child.kill()
            child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_head(self) -> None:
        """Start the head, or start it again: with the same port and store."""
        self._start(
            HEAD_IP,
            self._head_environment,
            "--head",
            f"--port={self._port}",
            f"--temp-dir={self.folder}",
            "--include-dashboard=false",
        )

    def start_worker(self) -> None:
        """Start the worker node; it alone has the resource ``survivor``."""
        self._start(
            WORKER_IP,
            self._environment,
            f"--address={self.address}",
            '--resources={"survivor": 10}',
        )

    def kill_gcs(self) -> Callable[[], None]:
        """SIGKILL the GCS, and return what starts it again as it was."""
        (gcs,) = [each for each in self.processes(HEAD_IP) if each.name() == "gcs_server"]
        command, environment = gcs.cmdline(), gcs.environ()
        _kill(gcs)

        def start() -> None:
            with (self.folder / "gcs_again.log").open("ab") as log:
                self._children.append(
                    subprocess.Popen(
                        command, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )

        return start

    def kill_head(self) -> None:
        """SIGKILL everything on the head node, as the loss of a machine does."""
        for process in self.processes(HEAD_IP):
            _kill(process)
        # A new machine has none; Ray takes the worker node's processes for those of a live head.
        (self.folder / "ray_current_cluster").unlink(missing_ok=True)

    def workers(self, node_ip: str, title: str) -> list[psutil.Process]:
        """Return those processes of a node whose title begins so."""
        return titled(self.processes(node_ip), title)

    def processes(self, node_ip: str) -> list[psutil.Process]:
        """Return the processes of a node, Ray's and ours."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = process.environ().get(_MARK) == self._mark(node_ip)
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _mark(self, node_ip: str) -> str:
        return f"{node_ip} {self.address}"

    def _start(self, node_ip: str, environment: Mapping[str, str], *flags: str) -> None:
        done = subprocess.run(
            [
                *_RAY,
                "start",
                f"--node-ip-address={node_ip}",
                "--num-cpus=2",
                f"--object-store-memory={100 * 2**20}",
                "--disable-usage-stats",
                *flags,
            ],
            env={**environment, _MARK: self._mark(node_ip)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def _storage(self, storage: str) -> dict[str, str]:
        return {"redis": self._start_redis, "rocksdb": self._rocksdb, "memory": dict[str, str]}[
            storage
        ]()

    def _rocksdb(self) -> dict[str, str]:
        path = self.folder / "gcs"
        path.mkdir()
        return {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(path)}

    def _start_redis(self) -> dict[str, str]:
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is not installed (apt-get install redis-server)"
        port = self._redis_port
        self._children.append(
            subprocess.Popen(
                [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
                stdout=subprocess.DEVNULL,
                cwd=self.folder,
            )
        )
        return {"RAY_REDIS_ADDRESS": f"127.0.0.1:{port}"}


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=20)
