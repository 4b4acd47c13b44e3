# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Many scrapers at once of a page with many models."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from tests.faults.models import write_ensemble, write_model
from tests.faults.scene import Options, Scene
from tests.support.busy_clients import OK, ConnectionEndedError, HttpPeer, Outcome

_SCRAPERS: Final = 8
_CALM_S: Final = 10.0
_STORM_S: Final = 20.0
_SCRAPE_TIMEOUT_S: Final = 30.0
# Of a process with Ray and NumPy in it and nothing else, and what other programs are left.
_BYTES_PER_PROCESS: Final = 80 << 20
_SPARE_BYTES: Final = 6 << 30


def write_many_models(repository: Path, options: Options) -> tuple[str, ...]:
    """Write the models, as many with a process as memory is there for; return the flags."""
    room = max(0, psutil.virtual_memory().available - _SPARE_BYTES) // _BYTES_PER_PROCESS
    processes = options.processes if options.processes is not None else room
    names = []
    for number in range(options.models):
        write, kind = (write_model, "model") if number < processes else (write_ensemble, "ensemble")
        names.append(f"{kind}_{number}")
        write(repository, names[-1])
    return tuple(f"--load-model={name}" for name in names)


class _Scraper(threading.Thread):
    """Reads the page again and again over one connection."""

    def __init__(self, address: str, until_s: float) -> None:
        super().__init__(daemon=True)
        self.durations_s: list[float] = []
        self.failures: list[str] = []
        self.page_bytes = 0
        self._address = address
        self._until_s = until_s

    def run(self) -> None:
        try:
            peer = HttpPeer(self._address, _SCRAPE_TIMEOUT_S)
            try:
                self._scrape(peer)
            finally:
                peer.close()
        except (OSError, ConnectionEndedError) as error:
            self.failures.append(f"{type(error).__name__} {error}")

    def _scrape(self, peer: HttpPeer) -> None:
        while (begin_s := time.monotonic()) < self._until_s:
            status, page = peer.exchange("GET", "/metrics")
            self.durations_s.append(time.monotonic() - begin_s)
            self.page_bytes = len(page)
            if status != 200:
                self.failures.append(f"{status} {page[:100]!r}")
                return


def scrape_storm(scene: Scene) -> None:
    """Compare the load's latencies with and without the storm."""
    calm_s = time.monotonic()
    time.sleep(_CALM_S)
    scene.begin()
    until_s = scene.fault_s + _STORM_S
    scrapers = [_Scraper(scene.server.metrics, until_s) for _ in range(_SCRAPERS)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join(_STORM_S + _SCRAPE_TIMEOUT_S)
    scene.end()
    outcomes = scene.clients.outcomes()
    with_processes = len(list(scene.repository.glob("model_*")))
    durations_s = [each for scraper in scrapers for each in scraper.durations_s]
    scene.notes += [
        f"{scene.options.models} models, {with_processes} of them with a process",
        f"without the storm {_latencies(outcomes, calm_s, scene.fault_s)}",
        f"with the storm {_latencies(outcomes, scene.fault_s, until_s)}",
        f"{len(durations_s)} scrapes of {max(each.page_bytes for each in scrapers)} bytes, "
        f"slowest {max(durations_s, default=0.0):.2f} s",
    ]
    scene.breaches += [f"scrape: {text}" for scraper in scrapers for text in scraper.failures]
    scene.heal(scene.is_ready)


def _latencies(outcomes: Sequence[Outcome], begin_s: float, end_s: float) -> str:
    took_s = [
        each.end_s - each.begin_s
        for each in outcomes
        if each.kind == OK and begin_s <= each.begin_s < end_s
    ]
    if not took_s:
        return "no answer"
    p50, p99, slowest = np.percentile(took_s, [50, 99, 100]) * 1e3
    rate = len(took_s) / (end_s - begin_s)
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, slowest {slowest:.0f} ms, {rate:.0f} answers/s"
