# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The faults: what each does to a server. What each may cost is in `tests.chaos.rules`."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psutil

from tests.chaos import network
from tests.chaos.models import EXTRA, SIMPLE, SUMS, load_with_files
from tests.chaos.plant import (
    CONTROLLER,
    INGRESS,
    REPLICAS,
    SERVE_CONTROLLER,
    Plant,
    wait_until,
)
from tests.chaos.records import FAR, Strike
from tests.chaos.rules import TIED
from tests.chaos.scene import NotNowError, Scene, fill
from tests.chaos.schedule import Event, Kind

# What a load still finds on a full disk.
_LEFT_BYTES: Final = 1 << 20
# How long the GCS is let live while actors are being created.
_CALM_S: Final = 10.0
_STARTING: Final = ("PENDING_CREATION", "RESTARTING", "DEPENDENCIES_UNREADY")
_SLOW_OPEN_US: Final = 200_000
_STEPS_S: Final = (-86_400, -3_600, -20, 20, 3_600, 86_400)
_COUNTS: Final = {SIMPLE: (2, 3, 5, 6), SUMS: (2, 3, 4)}


def _kill_instance(scene: Scene, event: Event, strike: Strike) -> None:
    _kill(scene.instance(event.draw, strike), strike)


def _stop_instance(scene: Scene, event: Event, strike: Strike) -> None:
    with _stopped(scene, scene.instance(event.draw, strike), strike):
        time.sleep(event.lasts_s)


def _kill_ingress(scene: Scene, event: Event, strike: Strike) -> None:
    _kill(scene.ingress(event.draw, strike), strike)


def _stop_ingress(scene: Scene, event: Event, strike: Strike) -> None:
    with _stopped(scene, scene.ingress(event.draw, strike), strike):
        time.sleep(event.lasts_s)


def _kill_one(title: str) -> Callable[[Scene, Event, Strike], None]:
    def inject(scene: Scene, event: Event, strike: Strike) -> None:
        del event
        _kill(scene.one(title, strike), strike)

    return inject


def _stop_one(title: str) -> Callable[[Scene, Event, Strike], None]:
    def inject(scene: Scene, event: Event, strike: Strike) -> None:
        with _stopped(scene, scene.one(title, strike), strike):
            time.sleep(event.lasts_s)

    return inject


def _lose_node(scene: Scene, event: Event, strike: Strike) -> None:
    plant = scene.plant
    if len(plant.processes(INGRESS, FAR)) != REPLICAS:
        raise NotNowError("the second node does not serve")
    near = {model for model in scene.wanted if scene.serving(model, but=FAR)}
    strike.node, strike.traffics = FAR, TIED
    strike.last_of = scene.traffics_of(set(scene.wanted) - near)
    strike.note = f"the second node, {len(plant.processes('ray::', FAR))} processes"
    strike.begin_s = time.monotonic()
    plant.lose_far()
    time.sleep(event.lasts_s)
    plant.start_far()


def _disturbed(
    disturb: Callable[[network.FarNetwork], None],
) -> Callable[[Scene, Event, Strike], None]:
    def inject(scene: Scene, event: Event, strike: Strike) -> None:
        link = scene.plant.network
        assert link is not None
        strike.begin_s = time.monotonic()
        disturb(link)
        try:
            time.sleep(event.lasts_s)
        finally:
            link.heal()

    return inject


def _reload(scene: Scene, event: Event, strike: Strike) -> None:
    models = sorted(scene.wanted)
    model = models[event.draw % len(models)]
    strike.note, strike.begin_s = model, time.monotonic()
    scene.change(model, scene.wanted[model])


def _scale(scene: Scene, event: Event, strike: Strike) -> None:
    models = sorted(_COUNTS)
    model = models[event.draw % len(models)]
    others = [count for count in _COUNTS[model] if count != scene.wanted[model]]
    count = others[event.draw // len(models) % len(others)]
    strike.note, strike.begin_s = f"{model} to {count} instances", time.monotonic()
    scene.change(model, count)


def _full_disk(scene: Scene, event: Event, strike: Strike) -> None:
    """Fill the disk of the head's caches, and load a model that brings files along."""
    strike.begin_s = time.monotonic()
    ballast = fill(scene.plant.small_disk, _LEFT_BYTES)
    try:
        scene.load_with("load with files on a full disk", EXTRA, load_with_files())
        time.sleep(event.lasts_s)
    finally:
        ballast.unlink()


def _slow_disk(scene: Scene, event: Event, strike: Strike) -> None:
    """Have each file of the repository and the caches take long to open, and load models."""
    every = scene.plant.conditions.values()
    strike.begin_s = time.monotonic()
    for each in every:
        each.slow_disk(_SLOW_OPEN_US)
    try:
        models = sorted(scene.wanted)
        scene.change(model := models[event.draw % len(models)], scene.wanted[model])
        strike.note = f"load of {model} meanwhile"
        time.sleep(event.lasts_s)
    finally:
        for each in every:
            each.slow_disk(0)


def _step_clock(scene: Scene, event: Event, strike: Strike) -> None:
    """Step the wall clock of a node, and step it back."""
    nodes = sorted(scene.plant.conditions)
    strike.node = nodes[event.draw % len(nodes)]
    step_s = _STEPS_S[event.draw // len(nodes) % len(_STEPS_S)]
    strike.note, strike.begin_s = f"{step_s:+d} s on {strike.node}", time.monotonic()
    scene.plant.conditions[strike.node].step_clock(step_s)
    try:
        time.sleep(event.lasts_s)
    finally:
        scene.plant.conditions[strike.node].step_clock(0)


def _kill(victim: psutil.Process, strike: Strike) -> None:
    strike.begin_s = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)


@contextmanager
def _stopped(scene: Scene, victim: psutil.Process, strike: Strike) -> Iterator[None]:
    strike.begin_s = time.monotonic()
    scene.stopped.add(victim.pid)
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        # psutil sees to it that no other process is hit that got the same id.
        if victim.is_running():
            victim.resume()
        scene.stopped.discard(victim.pid)


def _needs_nothing(plant: Plant) -> str:
    del plant
    return ""


def _needs_second_node(plant: Plant) -> str:
    return "" if plant.network is not None else network.why_not()


def _needs_small_disk(plant: Plant) -> str:
    return plant.why_no_small_disk


def _kill_gcs(scene: Scene, event: Event, strike: Strike) -> None:
    # Of an actor that is being created the restarted GCS does not know where it is: it takes what
    # the actor has reserved for taken, for ever, and kills it in vain.
    try:
        wait_until(lambda: not scene.plant.actors(_STARTING), _CALM_S, "actors are being created")
    except TimeoutError as error:
        raise NotNowError(f"{error}") from None
    strike.begin_s = time.monotonic()
    scene.plant.kill_gcs()
    time.sleep(event.lasts_s)
    scene.plant.start_gcs()


@dataclass(frozen=True)
class Fault:
    """A row of the table.

    Attributes:
        inject: Does it and undoes it; notes in the strike whom it hit, and when it began.
        shortest_s: How long it lasts at least; longest_s: at most.
        why_not: Returns why it cannot be had on this machine; empty: it can.
    """

    inject: Callable[[Scene, Event, Strike], None]
    shortest_s: float = 0.0
    longest_s: float = 0.0
    why_not: Callable[[Plant], str] = _needs_nothing


FAULTS: Final[dict[str, Fault]] = {
    "kill-instance": Fault(_kill_instance),
    # Up to beyond the heartbeat's timeout.
    "stop-instance": Fault(_stop_instance, 3.0, 14.0),
    "kill-ingress": Fault(_kill_ingress),
    "stop-ingress": Fault(_stop_ingress, 2.0, 8.0),
    "kill-controller": Fault(_kill_one(CONTROLLER)),
    "stop-controller": Fault(_stop_one(CONTROLLER), 2.0, 8.0),
    "kill-serve-controller": Fault(_kill_one(SERVE_CONTROLLER)),
    "kill-gcs": Fault(_kill_gcs, 1.0, 5.0),
    "lose-node": Fault(_lose_node, 2.0, 8.0, _needs_second_node),
    # Shorter than Ray's patience with a node.
    "partition": Fault(_disturbed(network.FarNetwork.cut), 1.0, 6.0, _needs_second_node),
    "slow-network": Fault(_disturbed(network.FarNetwork.slow), 2.0, 8.0, _needs_second_node),
    "full-disk": Fault(_full_disk, 2.0, 4.0, _needs_small_disk),
    "slow-disk": Fault(_slow_disk, 3.0, 6.0),
    "step-clock": Fault(_step_clock, 1.0, 6.0),
    "reload": Fault(_reload),
    "scale": Fault(_scale),
}


def kind_of(name: str) -> Kind:
    """Return what a schedule has to know of a fault."""
    return Kind(name, FAULTS[name].shortest_s, FAULTS[name].longest_s)


def kinds(plant: Plant) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds that can be had, and why each of the others cannot."""
    left_out = {name: why for name, fault in FAULTS.items() if (why := fault.why_not(plant))}
    return [kind_of(name) for name in FAULTS if name not in left_out], left_out
