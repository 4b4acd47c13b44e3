# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How long starting, loading, unloading and recovering take, and what an idle server takes.

Usage: bench_lifecycle.py [--idle-only]; the idle server is that of the demo repository.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import tritonclient.http as triton_http
from bench_servers import SERVERS
from bench_starts import ROUNDS, measure_starts, write_python_model
from process_costs import BARE_ASYNC, BARE_SYNC, Costs
from tritonclient.utils import InferenceServerException

ROOT = Path(__file__).resolve().parent.parent
MANY = 50
DEMO = ROOT / "configs/models"
# Instances come to rest ten seconds after their load.
SETTLE_S = 20.0
IDLE_S = 60.0


class Server:
    """A ``manta serve`` process."""

    def __init__(self, repository: Path, *flags: str) -> None:
        self.started_s = time.monotonic()
        self.process = subprocess.Popen(
            [
                Path(sys.executable).parent / "manta",
                "serve",
                f"--model-repository={repository}",
                "--http-port=0",
                "--grpc-port=0",
                "--metrics-port=0",
                *flags,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("MANTA_READY "):
                self.url = json.loads(line.removeprefix("MANTA_READY "))["http"]
                break
        self.ready_s = time.monotonic() - self.started_s

    def processes(self, title: str) -> list[psutil.Process]:
        """Return processes by title."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in children if " ".join(each.cmdline()).startswith(title)]

    def stop(self) -> float:
        """Terminate and return how long that took."""
        start_s = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return time.monotonic() - start_s


def _timed(action: Callable[[], object]) -> float:
    start_s = time.monotonic()
    action()
    return time.monotonic() - start_s


def _until(condition: Callable[[], object]) -> float:
    start_s = time.monotonic()
    while not condition():
        time.sleep(0.02)
    return time.monotonic() - start_s


def _try(action: Callable[[], object]) -> bool:
    try:
        action()
    except InferenceServerException:
        return False
    return True


def measure_idle() -> None:
    """Print what each process of an idle server with the demo repository takes."""
    if not DEMO.is_dir():
        sys.exit("bench_lifecycle: no demo repository: run 'make demo-models'")
    # This process joins the server's Ray, to put bare actors beside the instances.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    server = Server(DEMO)
    print(f"start to ready, demo repository: {server.ready_s:.1f} s")
    costs = Costs(server.process.pid)
    time.sleep(SETTLE_S)
    cpu, memory = costs.cpu(IDLE_S), costs.memory()
    costs.close()
    bare_percent, bare_mb = cpu[BARE_ASYNC][1], memory[BARE_ASYNC]
    print(f"{'process':32}{'count':>6}{'% of a core':>13}{'x bare':>8}{'MB':>8}{'MB - bare':>11}")
    for title, (count, percent) in cpu.items():
        ratio, above_mb = percent / bare_percent, memory[title] - bare_mb
        print(f"{title:32}{count:6}{percent:13.3f}{ratio:8.2f}{memory[title]:8.1f}{above_mb:11.1f}")
    total = sum(
        n * each for title, (n, each) in cpu.items() if title not in {BARE_ASYNC, BARE_SYNC}
    )
    print(f"all but the bare actors: {total:.1f} % of a core")
    server.stop()


def main() -> None:
    """Measure and print."""
    measure_idle()
    if "--idle-only" not in sys.argv[1:]:
        measure_lifecycle()
        measure_starts(sorted(SERVERS), ROUNDS)


def measure_lifecycle() -> None:
    """Print how long starting, loading, unloading and recovering take."""
    with tempfile.TemporaryDirectory(prefix="manta-lifecycle-") as folder:
        many, tiny = Path(folder, "many"), Path(folder, "tiny")
        write_python_model(tiny, "tiny")
        for number in range(MANY):
            write_python_model(many, f"tiny_{number:02}")
        server = Server(tiny, "--model-control-mode=explicit")
        print(f"start to ready, no model: {server.ready_s:.1f} s")
        client = triton_http.InferenceServerClient(server.url, network_timeout=120)
        loads, unloads = [], []
        for _ in range(10):
            loads.append(_timed(lambda: client.load_model("tiny")))
            unloads.append(_timed(lambda: client.unload_model("tiny")))
        print(
            f"load a tiny model: median {statistics.median(loads):.2f} s, most {max(loads):.2f} s"
        )
        print(f"unload it: median {statistics.median(unloads):.2f} s, most {max(unloads):.2f} s")
        client.load_model("tiny")
        victim = server.processes("ray::tiny/1")[0]
        os.kill(victim.pid, signal.SIGKILL)
        psutil.wait_procs([victim], timeout=10)
        x = triton_http.InferInput("INPUT0", [1], "FP32")
        x.set_data_from_numpy(np.zeros(1, np.float32))
        back_s = _until(lambda: _try(lambda: client.infer("tiny", [x])))
        print(f"killed instance is back: {back_s:.1f} s")
        os.kill(server.processes("ray::ModelController")[0].pid, signal.SIGKILL)
        back_s = _timed(lambda: _until(lambda: _try(lambda: client.unload_model("tiny"))))
        print(f"killed controller unloads again: {back_s:.1f} s")
        print(f"stop: {server.stop():.1f} s")
        server = Server(many)
        print(f"start to ready, {MANY} tiny models: {server.ready_s:.1f} s")
        print(f"stop: {server.stop():.1f} s")


if __name__ == "__main__":
    main()
