# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The faults: what each does to a server, and what it may cost."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from tests.faults.ingresses import REPLICAS, sigkill_ingress, sigstop_ingress
from tests.faults.models import (
    BUSY,
    FATAL_FILE,
    SINGLE,
    Shape,
    config_of_round,
    write_model,
    write_sequence_model,
)
from tests.faults.report import Rule
from tests.faults.scene import CONTROLLER, INSTANCE, SERVE_CONTROLLER, Options, Scene
from tests.faults.storm import scrape_storm, write_many_models
from tests.support.busy_clients import BusyClients
from tests.support.busy_sequences import BusySequences

# An instance without a sign of life is given up after this time, by default.
HEARTBEAT_TIMEOUT_S: Final = 10.0
_SLACK_S: Final = 5.0
_STOP_S: Final = 10.0
_COUNTS: Final = (1, 4, 2, 4)


@dataclass(frozen=True)
class Fault:
    """A row of the table.

    Attributes:
        inject: Does it, and waits until the server is whole again.
        rule: What it may cost.
        flags: Of the server.
        shape: What the busy model is like.
        write: Writes the busy model.
        clients: Those that ask it.
        patience_s: How long a client waits for an answer.
        prepare: Writes further models into the repository; returns further flags.
        start_timeout_s: How long the server may take to start.
    """

    inject: Callable[[Scene], None]
    rule: Rule = Rule()
    flags: tuple[str, ...] = ()
    shape: Shape = Shape()
    write: Callable[[Path, str, Shape], None] = write_model
    clients: type[BusyClients] = BusyClients
    patience_s: float = 30.0
    prepare: Callable[[Path, Options], tuple[str, ...]] | None = None
    start_timeout_s: float = 120.0


def _sigkill_instance(scene: Scene) -> None:
    victim = scene.one(INSTANCE)
    scene.begin()
    os.kill(victim.pid, signal.SIGKILL)
    scene.heal(lambda: _is_instance_replaced(scene, victim))


def _sigstop_instance(scene: Scene) -> None:
    victim = scene.one(INSTANCE)
    scene.begin()
    with scene.stopped(victim):
        scene.heal(lambda: _is_instance_replaced(scene, victim))


def _is_instance_replaced(scene: Scene, victim: psutil.Process) -> bool:
    is_back = len(scene.answering() - {victim.pid}) == scene.shape.instances
    return is_back and scene.are_others(INSTANCE, victim, scene.shape.instances)


def _execution_thread(scene: Scene) -> None:
    before = scene.answering()
    fatal_file = scene.repository / BUSY / FATAL_FILE
    scene.begin()
    fatal_file.touch()
    scene.clients.wait_until(lambda: not fatal_file.exists(), 10, "no instance took the fatal file")

    def is_replaced() -> bool:
        answering = scene.answering()
        pids = {each.pid for each in scene.server.processes(INSTANCE)}
        return len(answering) == scene.shape.instances and answering == pids != before

    scene.heal(is_replaced)


def _sigkill(title: str) -> Callable[[Scene], None]:
    def inject(scene: Scene) -> None:
        victim = scene.one(title)
        scene.begin()
        os.kill(victim.pid, signal.SIGKILL)
        scene.heal(lambda: scene.are_others(title, victim, 1) and scene.is_ready())
        scene.check_control()

    return inject


def _sigstop_for_a_while(title: str) -> Callable[[Scene], None]:
    def inject(scene: Scene) -> None:
        victim = scene.one(title)
        scene.begin()
        with scene.stopped(victim):
            time.sleep(_STOP_S)
        scene.end()
        scene.heal(scene.is_ready)
        scene.check_control()

    return inject


def _reload_loop(scene: Scene) -> None:
    _reload(scene, [scene.shape] * scene.options.reloads)


def _scale(scene: Scene) -> None:
    _reload(scene, [replace(scene.shape, instances=count) for count in _COUNTS])


def _reload(scene: Scene, shapes: Sequence[Shape]) -> None:
    scene.begin()
    took_s = []
    for number, shape in enumerate(shapes, 1):
        begin_s = time.monotonic()
        body = {"parameters": {"config": json.dumps(config_of_round(number, shape))}}
        status, text = scene.ask("POST", f"/v2/repository/models/{BUSY}/load", body)
        took_s.append(time.monotonic() - begin_s)
        if status != 200:
            scene.breaches.append(f"reload {number}: {status} {text[:200]}")
            break
    scene.end()
    _, text = scene.ask("GET", f"/v2/models/{BUSY}/config")
    if f'"round":{{"string_value":"{len(shapes)}"}}' not in text.replace(" ", ""):
        scene.breaches.append(f"the configuration is not the last one loaded: {text[-200:]}")
    scene.notes.append(f"{len(took_s)} reloads, the slowest took {max(took_s):.1f} s")
    count = shapes[-1].instances
    scene.heal(lambda: len(scene.server.processes(INSTANCE)) == count == len(scene.answering()))


def _sigterm(scene: Scene) -> None:
    tree = scene.server.tree()
    scene.begin()
    scene.server.process.send_signal(signal.SIGTERM)
    scene.heal(lambda: scene.server.process.poll() is not None)
    _, alive = psutil.wait_procs(tree, timeout=10)
    scene.breaches += [f"process {each.pid} outlives the server" for each in alive]


_TWO_REPLICAS: Final = (f"--ingress-per-node={REPLICAS}",)
# Serve counts three missed probes before it replaces a replica.
_REPLICA_LIMIT_S: Final = 60.0
# Half of what is asked waits for an instance at any time.
_SLOW: Final = Shape(max_batch_size=4, execution_s=0.05)
_GOES_ON: Final = Rule(slowest_s=_SLACK_S)
_ENDS: Final = Rule(heal_s=45.0, refuses=True)

FAULTS: Final[dict[str, Fault]] = {
    "sigkill-instance": Fault(_sigkill_instance),
    "sigkill-instance-replicas": Fault(_sigkill_instance, flags=_TWO_REPLICAS, shape=_SLOW),
    "sigstop-instance": Fault(
        _sigstop_instance, Rule(slowest_s=HEARTBEAT_TIMEOUT_S + _SLACK_S, heal_s=40.0)
    ),
    "execution-thread": Fault(
        _execution_thread, Rule(slowest_s=HEARTBEAT_TIMEOUT_S + _SLACK_S, heal_s=40.0)
    ),
    "sigkill-ingress": Fault(sigkill_ingress(is_holder=False), flags=_TWO_REPLICAS),
    "sigstop-ingress": Fault(
        sigstop_ingress(is_holder=False),
        Rule(heal_s=_REPLICA_LIMIT_S),
        flags=_TWO_REPLICAS,
        patience_s=2 * _REPLICA_LIMIT_S + _SLACK_S,
    ),
    "sigkill-holder": Fault(sigkill_ingress(is_holder=True), flags=_TWO_REPLICAS),
    "sigkill-holder-backlog": Fault(
        sigkill_ingress(is_holder=True), flags=_TWO_REPLICAS, shape=_SLOW
    ),
    "sigkill-holder-sequences": Fault(
        sigkill_ingress(is_holder=True),
        flags=_TWO_REPLICAS,
        write=write_sequence_model,
        clients=BusySequences,
    ),
    # What the other ingress's clients ask waits until that takes over.
    "sigstop-holder": Fault(
        sigstop_ingress(is_holder=True),
        Rule(slowest_s=HEARTBEAT_TIMEOUT_S + _SLACK_S, heal_s=_REPLICA_LIMIT_S),
        flags=_TWO_REPLICAS,
        patience_s=2 * _REPLICA_LIMIT_S + _SLACK_S,
    ),
    "sigkill-controller": Fault(_sigkill(CONTROLLER), _GOES_ON),
    "sigstop-controller": Fault(_sigstop_for_a_while(CONTROLLER), _GOES_ON),
    "sigkill-serve-controller": Fault(_sigkill(SERVE_CONTROLLER), _GOES_ON),
    "sigstop-serve-controller": Fault(_sigstop_for_a_while(SERVE_CONTROLLER), _GOES_ON),
    "reload-loop": Fault(_reload_loop),
    "reload-loop-replicas": Fault(_reload_loop, flags=_TWO_REPLICAS),
    "scale": Fault(_scale, flags=_TWO_REPLICAS),
    "scrape-storm": Fault(
        scrape_storm, shape=SINGLE, prepare=write_many_models, start_timeout_s=1200.0
    ),
    "sigterm": Fault(_sigterm, _ENDS),
    "sigterm-replicas": Fault(_sigterm, _ENDS, flags=_TWO_REPLICAS),
}
