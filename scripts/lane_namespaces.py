# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes between two network namespaces, over a network with delay, loss and a partition.

Needs Linux with unprivileged user namespaces, `ip`, `unshare`, `nsenter` and /dev/net/tun; no root,
no Ray, and no netem, which many kernels lack: what delays and drops is a thread between two TUN
devices, so that the two kernels' TCP is real. One namespace has a router, the other an instance
(`scripts/bench_lane.py`).

- throughput: over a pair of veth devices and over a Unix socket within a namespace, in turn.
- loss: 20 ms each way and 1 % of the packets lost.
- partition: nothing gets through for a while, under load and with an idle lane.

Usage: lane_namespaces.py [--rounds 5] [--seconds 3] [--tls off] [--json FILE]
"""

import argparse
import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BENCH: Final = str(ROOT / "scripts" / "bench_lane.py")

# By the way to the instance: the router's address and the instance's.
VETH: Final = ("10.77.0.1", "10.77.0.2")
TUN: Final = ("10.78.0.1", "10.78.0.2")
# The request of the ioctl, and a device of packets without a header.
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_CLONE_NEWNET: Final = 0x40000000
_PACKET_BYTES: Final = 1 << 16
_ENTERED: Final = "MANTA_LANE_NAMESPACES"

DELAY_S: Final = 0.02
LOSS: Final = 0.01
HEARTBEAT_S: Final = 4.0
PARTITION_AT_S, PARTITION_S, AFTER_S = 3.0, 10.0, 12.0
LEAST_SHARE: Final = 0.7
# After a partition: what TCP and a router wait for before they try again, and a busy machine.
HEALS_WITHIN_S: Final = 8.0


class Network(threading.Thread):
    """Carries packets between two namespaces.

    Args:
        other: Process whose network namespace the other end is in.

    Attributes:
        delay_s: Of each packet, each way.
        loss: Share of the packets that are lost.
        is_cut: Whether all are.
    """

    def __init__(self, other: int) -> None:
        super().__init__(daemon=True, name="network")
        self._other = other
        self.delay_s = 0.0
        self.loss = 0.0
        self.is_cut = False
        self.is_up = threading.Event()

    def run(self) -> None:
        """Carry packets for as long as the process lives."""
        ends = [_open_tun("lane0")]
        # Only this thread moves.
        with open(f"/proc/{self._other}/ns/net") as there:  # noqa: PTH123 - its descriptor
            _check(ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET))
        ends.append(_open_tun("lane1"))
        self.is_up.set()
        under_way: list[tuple[float, int, int, bytes]] = []
        count = 0
        while True:
            wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else 0.05
            readable, _, _ = select.select(ends, (), (), wait_s)
            now_s = time.monotonic()
            for end in readable:
                packet = os.read(end, _PACKET_BYTES)
                if not (self.is_cut or random.random() < self.loss):
                    count += 1
                    to = ends[1 - ends.index(end)]
                    heapq.heappush(under_way, (now_s + self.delay_s, count, to, packet))
            while under_way and under_way[0][0] <= now_s:
                _, _, to, packet = heapq.heappop(under_way)
                with contextlib.suppress(OSError):
                    os.write(to, packet)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _open_tun(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
    return fd


class Namespaces:
    """This process's namespace, which has the router, and another one, which has the instance."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        _run("ip", "link", "set", "lo", "up")
        self._child = stack.enter_context(_process("unshare", "-n", "sleep", "infinity"))
        self._wait_for_namespace()
        self.there = ["nsenter", "-t", str(self._child.pid), "-n"]
        _run(*self.there, "ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
        _run("ip", "link", "set", "veth1", "netns", str(self._child.pid))
        self.network = Network(self._child.pid)
        self.network.start()
        self.network.is_up.wait()
        for device, address, prefix in (
            ("veth0", VETH[0], []),
            ("veth1", VETH[1], self.there),
            ("lane0", TUN[0], []),
            ("lane1", TUN[1], self.there),
        ):
            _run(*prefix, "ip", "addr", "add", f"{address}/24", "dev", device)
            _run(*prefix, "ip", "link", "set", device, "up")

    def _wait_for_namespace(self) -> None:
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._child.pid}/ns/net").readlink() == own:
            time.sleep(0.01)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextlib.contextmanager
def _process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Lanes:
    """An instance in the other namespace, and loads on it.

    Args:
        spaces: The namespaces.
        stack: Ends the instance.
        tls: Mode of the lanes.
    """

    def __init__(self, spaces: Namespaces, stack: contextlib.ExitStack, tls: str) -> None:
        self._spaces = spaces
        self._tls = ["--tls", tls, "--heartbeat", str(HEARTBEAT_S)]
        command = [*spaces.there, sys.executable, BENCH, "serve", "--host", "0.0.0.0", *self._tls]
        instance = stack.enter_context(_process(*command))
        assert instance.stdout is not None
        self._endpoint: dict[str, Any] = json.loads(instance.stdout.readline())

    def start(self, way: tuple[str, str] | None, seconds: float, clients: int = 16) -> Any:
        """Begin a load: over a network, or within the other namespace."""
        endpoint, prefix, local = self._endpoint, self._spaces.there, ["--local"]
        if way is not None:
            endpoint = endpoint | {"tcp": [way[1], endpoint["tcp"][1]]}
            prefix, local = [], []
        numbers = ["--seconds", str(seconds), "--concurrency", str(clients)]
        return _process(
            *prefix,
            *(sys.executable, BENCH, "load", json.dumps(endpoint)),
            *(*self._tls, *numbers, *local),
        )

    def load(self, way: tuple[str, str] | None, seconds: float) -> dict[str, Any]:
        """Return what a load has met."""
        with self.start(way, seconds) as process:
            process.stdout.readline()
            return _seen(process)


def _seen(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, _ = process.communicate()
    seen: dict[str, Any] = json.loads(out)
    return seen


def throughput(lanes: Lanes, rounds: int, seconds: float) -> dict[str, Any]:
    """Compare a remote instance with a local one."""
    seen: dict[str, list[dict[str, Any]]] = {"local": [], "remote": []}
    for _ in range(rounds):
        seen["local"].append(lanes.load(None, seconds))
        seen["remote"].append(lanes.load(VETH, seconds))
    rates = {way: statistics.median(row["rate"] for row in rows) for way, rows in seen.items()}
    share = round(rates["remote"] / rates["local"], 3)
    is_right = all(not (row["errors"] or row["wrong"]) for rows in seen.values() for row in rows)
    return {"case": "throughput", **rates, "share": share, "ok": is_right and share >= LEAST_SHARE}


def loss(lanes: Lanes, network: Network, seconds: float) -> dict[str, Any]:
    """Load over a network with delay and loss."""
    network.delay_s, network.loss = DELAY_S, LOSS
    seen = lanes.load(TUN, seconds)
    network.delay_s = network.loss = 0.0
    is_ok = seen["rate"] > 0 and not (seen["errors"] or seen["wrong"])
    return {"case": "20 ms, 1 % loss", **seen, "ok": is_ok}


def partition(lanes: Lanes, network: Network, clients: int) -> dict[str, Any]:
    """Cut the network off for a while; no process is restarted.

    What is on the lane when that is given up fails, for there is no other instance to send it to;
    what comes later waits.
    """
    seconds = PARTITION_AT_S + PARTITION_S + AFTER_S
    with lanes.start(TUN, seconds, clients) as process:
        assert process.stdout is not None
        # The first line says that there is a lane.
        process.stdout.readline()
        time.sleep(PARTITION_AT_S)
        network.is_cut = True
        time.sleep(PARTITION_S)
        network.is_cut = False
        seen = _seen(process)
    without = seen["without_lane"]
    failed_count = sum(seen["errors"].values())
    is_ok = failed_count <= clients and not seen["wrong"] and len(without) == 1
    if without:
        begin_s, length_s = without[0]
        seen["noticed_after_s"] = round(begin_s - PARTITION_AT_S, 2)
        seen["healed_after_s"] = round(begin_s + length_s - PARTITION_AT_S - PARTITION_S, 2)
        is_ok = (
            is_ok
            and seen["noticed_after_s"] <= 1.25 * HEARTBEAT_S + 1
            and seen["healed_after_s"] <= HEALS_WITHIN_S
        )
    return {"case": f"partition of {PARTITION_S:g} s, {clients} clients", **seen, "ok": is_ok}


def main() -> None:
    """Enter a namespace and do all cases there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tls", default="off")
    parser.add_argument("--only", default="throughput loss partition")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if _ENTERED not in os.environ:
        os.environ[_ENTERED] = "1"
        command = ["unshare", "-rn", "--kill-child", "-f", sys.executable, __file__, *sys.argv[1:]]
        os.execvp(command[0], command)
    rows = []
    with contextlib.ExitStack() as stack:
        spaces = Namespaces(stack)
        lanes = Lanes(spaces, stack, given.tls)
        cases = {
            "throughput": [lambda: throughput(lanes, given.rounds, given.seconds)],
            "loss": [lambda: loss(lanes, spaces.network, 5 * given.seconds)],
            "partition": [
                lambda: partition(lanes, spaces.network, 16),
                lambda: partition(lanes, spaces.network, 0),
            ],
        }
        for name in given.only.split():
            for case in cases[name]:
                rows.append(case())
                sys.stdout.write(json.dumps(rows[-1]) + "\n")
                sys.stdout.flush()
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
