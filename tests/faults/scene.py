# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server under load, and what a fault does to it and asks of it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.faults.models import BUSY, OTHER, Shape
from tests.faults.report import Observation
from tests.support.busy_clients import BusyClients, Outcome, ask
from tests.support.server import RunningServer

# Titles of the server's processes.
INSTANCE: Final = f"ray::{BUSY}/1"
INGRESS: Final = "ray::ServeReplica:manta:Ingress"
CONTROLLER: Final = "ray::ModelController"
SERVE_CONTROLLER: Final = "ray::ServeController"

_CONTROL_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        models: Models of the scrape storm.
        processes: How many of those have a process of their own; the others are ensembles.
        concurrency: Clients of each protocol.
        reloads: How often the model is loaded again where that is the fault.
        logs: Folder that gets what each server printed; None for none.
    """

    models: int = 300
    processes: int | None = None
    concurrency: int = 16
    reloads: int = 20
    logs: Path | None = None


@dataclass
class Scene:
    """A server under load.

    Attributes:
        fault_s: When the fault began, by `time.monotonic`; over_s: when it was over, from which
            the time to heal counts; healed_at_s: when the server was whole again.
        own_ports: Client's ports of the connections that the fault's process has.
        watch_s: How long the server is waited for to be whole again.
        takes_backlog: Whether connections made since the fault may be in that process's backlog.
    """

    server: RunningServer
    clients: BusyClients
    repository: Path
    options: Options
    shape: Shape
    watch_s: float
    fault_s: float = 0.0
    over_s: float = 0.0
    healed_at_s: float | None = None
    own_ports: frozenset[int] = frozenset()
    takes_backlog: bool = False
    notes: list[str] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Note that the fault begins now."""
        self.fault_s = self.over_s = time.monotonic()

    def end(self) -> None:
        """Note that the fault is over and the server may become whole again."""
        self.over_s = time.monotonic()

    def heal(self, is_whole: Callable[[], bool]) -> bool:
        """Wait until the server is whole again; return whether it ever was.

        It is waited for longer than the rule allows, so that the table tells how long it took.
        """
        try:
            self.clients.wait_until(is_whole, self.watch_s, "not whole")
        except TimeoutError:
            return False
        self.healed_at_s = time.monotonic()
        return True

    def one(self, title: str) -> psutil.Process:
        """Return the first process of that title."""
        found = self.server.processes(title)
        assert found, f"no process '{title}'"
        return min(found, key=lambda each: each.pid)

    @contextmanager
    def stopped(self, victim: psutil.Process) -> Iterator[None]:
        """SIGSTOP a process, and SIGCONT if it still is there at the end."""
        os.kill(victim.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            # psutil sees to it that no other process is hit that got the same id.
            if victim.is_running():
                victim.resume()

    def are_others(self, title: str, victim: psutil.Process, count: int) -> bool:
        """Whether ``count`` processes have this title and none of them is the victim."""
        pids = {each.pid for each in self.server.processes(title)}
        return len(pids) == count and victim.pid not in pids

    def answering(self) -> set[int]:
        """Processes of instances that have answered in the last second."""
        recently_s = time.monotonic() - 1.0
        return {pid for pid, at_s in dict(self.clients.answered_at_s).items() if at_s > recently_s}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Send a request over a connection of its own; return status and body.

        What keeps it from an answer is told in place of a body, with status 0.
        """
        return ask(self.server.http, method, path, body, _CONTROL_TIMEOUT_S)

    def is_ready(self) -> bool:
        """Whether the server says that it is ready and the repository can be listed."""
        ready, _ = self.ask("GET", "/v2/health/ready")
        listed, _ = self.ask("POST", "/v2/repository/index", {})
        return ready == listed == 200

    def check_control(self) -> None:
        """Load and unload a model, which the controller does."""
        begin_s = time.monotonic()
        for verb in ("load", "unload"):
            status, text = self.ask("POST", f"/v2/repository/models/{OTHER}/{verb}", {})
            if status != 200:
                self.breaches.append(f"{verb} afterwards: {status} {text[:200]}")
                return
        self.notes.append(f"load and unload afterwards: {time.monotonic() - begin_s:.1f} s")

    def observe(self, outcomes: list[Outcome]) -> Observation:
        """Return what was seen from the fault on."""
        healed_s = None if self.healed_at_s is None else self.healed_at_s - self.over_s
        until_s = time.monotonic()
        if self.healed_at_s is not None and self.server.process.poll() is not None:
            # What is refused by a server that has ended says nothing.
            until_s = self.healed_at_s
        since = [each for each in outcomes if each.end_s >= self.fault_s and each.begin_s < until_s]
        own_s = [each.end_s - each.begin_s for each in since if self._is_own(each)]
        if self.own_ports:
            longest_s = max(own_s, default=0.0)
            self.notes.append(
                f"{len(self.own_ports)} own connections, which waited for {longest_s:.1f} s at most"
            )
        return Observation(since, healed_s, self._is_own, tuple(self.notes), tuple(self.breaches))

    def _is_own(self, outcome: Outcome) -> bool:
        if outcome.port in self.own_ports:
            return True
        until_s = self.healed_at_s or time.monotonic()
        is_since = self.fault_s <= outcome.begin_s <= until_s
        return self.takes_backlog and outcome.is_first and is_since


def client_ports(process: psutil.Process, *addresses: str) -> frozenset[int]:
    """Return the peers' ports of a process's connections at these addresses."""
    own = {int(address.rsplit(":", 1)[1]) for address in addresses}
    return frozenset(
        each.raddr.port
        for each in process.net_connections(kind="tcp")
        if each.status == psutil.CONN_ESTABLISHED and each.laddr.port in own
    )


def is_listening(process: psutil.Process, address: str) -> bool:
    """Whether a process listens at an address's port."""
    port = int(address.rsplit(":", 1)[1])
    return any(
        each.status == psutil.CONN_LISTEN and each.laddr.port == port
        for each in process.net_connections(kind="tcp")
    )
