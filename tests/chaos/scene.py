# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server under load, as faults find it."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.chaos.descriptors import is_listening, peer_ports
from tests.chaos.models import INSTANCES, write_config
from tests.chaos.plant import INGRESS, REPLICAS, Plant
from tests.chaos.questions import TRAFFICS
from tests.chaos.records import Control, Strike
from tests.support.server import title_of

# A process of this age serves, however busy the machine.
_SETTLED_S: Final = 20.0


class NotNowError(Exception):
    """A fault would cost more than its row says, or nothing: for example nobody is left to hit."""


@dataclass
class Scene:
    """The server.

    Attributes:
        wanted: Model -> instances that it is to have.
        controls: Loads that have been answered.
        stopped: Ids of processes that are stopped.
    """

    plant: Plant
    wanted: dict[str, int] = field(default_factory=lambda: dict(INSTANCES))
    controls: list[Control] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)
    _threads: list[threading.Thread] = field(default_factory=list)
    _control: threading.Lock = field(default_factory=threading.Lock)
    _round: int = 0

    # Whom to hit

    def instance(self, draw: int, strike: Strike) -> psutil.Process:
        """Choose an instance whose model has another one that serves.

        Raises:
            NotNowError: There is none.
        """
        choice = []
        for model in sorted(INSTANCES):
            serving = self.serving(model)
            if len(serving) > 1:
                choice += [(model, process) for process in serving]
        if not choice:
            raise NotNowError("no model has two instances that serve")
        model, process = choice[draw % len(choice)]
        strike.traffics = TRAFFICS[model]
        strike.node = self.plant.node_of(process)
        strike.note = f"{title_of(process)} on {strike.node}"
        return process

    def ingress(self, draw: int, strike: Strike) -> psutil.Process:
        """Choose an ingress beside which another one of its node serves; note its connections.

        Raises:
            NotNowError: There is none.
        """
        choice = []
        for node, address in sorted(self.plant.addresses.items()):
            serving = [
                process
                for process in self.plant.processes(INGRESS, node)
                if process.pid not in self.stopped and is_listening(process.pid, address.http)
            ]
            if len(serving) == REPLICAS:
                choice += [(node, process) for process in serving]
        if not choice:
            raise NotNowError("no node has two ingresses that serve")
        node, process = choice[draw % len(choice)]
        address = self.plant.addresses[node]
        strike.node = node
        strike.ports = peer_ports(process.pid, address.http)
        strike.connections = len(peer_ports(process.pid, address.grpc))
        held = f"{len(strike.ports)} + {strike.connections} connections"
        strike.note = f"ingress {process.pid} on {node}, {held}"
        return process

    def one(self, title: str, strike: Strike) -> psutil.Process:
        """Return the only process of a title.

        Raises:
            NotNowError: It is not there.
        """
        found = [p for p in self.plant.processes(title) if p.pid not in self.stopped]
        if len(found) != 1:
            raise NotNowError(f"{len(found)} processes '{title}'")
        strike.node = self.plant.node_of(found[0])
        strike.note = f"{found[0].pid} on {strike.node}"
        return found[0]

    def serving(self, model: str, but: str = "") -> list[psutil.Process]:
        """Return the instances of a model that serve, without those of one node."""
        lost = {each.pid for each in self.plant.processes(node=but)} if but else set()
        found = self.plant.processes(f"ray::{model}/1")
        return [each for each in found if self._serves(each) and each.pid not in lost]

    @staticmethod
    def traffics_of(models: set[str]) -> frozenset[str]:
        """Return what clients ask of models."""
        return frozenset().union(*(TRAFFICS[model] for model in models))

    def _serves(self, process: psutil.Process) -> bool:
        try:
            age_s = time.time() - process.create_time()
        except psutil.Error:
            return False
        return age_s > _SETTLED_S and process.pid not in self.stopped

    # Loads

    def change(self, model: str, count: int) -> None:
        """Have a model loaded anew with so many instances, behind whatever is loading already."""

        def load() -> None:
            with self._control:
                self._round += 1
                write_config(self.plant.repository, model, count, self._round)
                self.wanted[model] = count
                self.load(f"load of {model} with {count} instances", model, {})

        self._start(load)

    def load_with(self, what: str, model: str, body: dict[str, object]) -> None:
        """Have a model loaded that brings its files along, and unloaded."""

        def load() -> None:
            with self._control:
                if not self.load(what, model, body):
                    self.load(f"unload of {model}", model, {}, verb="unload")

        self._start(load)

    def load(self, what: str, model: str, body: dict[str, object], verb: str = "load") -> str:
        """Load a model and note the answer; return what was wrong."""
        begin_s = time.monotonic()
        status, text = self.plant.ask("POST", f"/v2/repository/models/{model}/{verb}", body)
        error = "" if status == 200 else f"{status} {text[:300]}"
        self.controls.append(Control(what, begin_s, time.monotonic(), error, is_cut=not status))
        return error

    def join(self, timeout_s: float) -> None:
        """Wait for the loads that are under way.

        Raises:
            TimeoutError: One is not answered.
        """
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            raise TimeoutError(f"a load is not answered within {timeout_s:g} s")

    def restore(self) -> None:
        """Have all models as they were written first."""
        for model, count in INSTANCES.items():
            if self.wanted[model] != count:
                self.change(model, count)

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()


def fill(folder: Path, leave_bytes: int) -> Path:
    """Fill the disk that a folder is on; return the file that does it."""
    ballast = folder / "ballast"
    chunk = random.Random(1).randbytes(1 << 16)
    left = psutil.disk_usage(str(folder)).free - leave_bytes
    with ballast.open("wb") as file:
        while left > 0:
            file.write(chunk[: min(left, len(chunk))])
            left -= len(chunk)
    return ballast
