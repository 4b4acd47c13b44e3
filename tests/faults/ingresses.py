# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What befalls one of two ingresses: the one that holds the queues of the pools, or the other."""

import os
import signal
from collections.abc import Callable
from typing import Final

import psutil

from tests.faults.scene import INGRESS, Scene, client_ports, is_listening

REPLICAS: Final = 2
# As the kernel lists it; see `deployments.pool_queue.election`.
_HOLDER_NAME: Final = "@manta/holder/"


def sigkill_ingress(*, is_holder: bool) -> Callable[[Scene], None]:
    """Return the fault that kills one of them."""

    def inject(scene: Scene) -> None:
        victim = _choose(scene, is_holder=is_holder)
        scene.begin()
        os.kill(victim.pid, signal.SIGKILL)
        scene.heal(lambda: _is_replaced(scene, victim))

    return inject


def sigstop_ingress(*, is_holder: bool) -> Callable[[Scene], None]:
    """Return the fault that stops one of them."""

    def inject(scene: Scene) -> None:
        victim = _choose(scene, is_holder=is_holder)
        scene.begin()
        with scene.stopped(victim):
            scene.heal(lambda: _is_replaced(scene, victim))

    return inject


def holds_queues(process: psutil.Process) -> bool:
    """Whether a process holds the queues of its node."""
    try:
        sockets = process.net_connections(kind="unix")
    except psutil.Error:
        return False
    return any(str(each.laddr).startswith(_HOLDER_NAME) for each in sockets)


def _choose(scene: Scene, *, is_holder: bool) -> psutil.Process:
    server = scene.server
    found = [each for each in server.processes(INGRESS) if holds_queues(each) == is_holder]
    assert len(found) == 1, f"{len(found)} of {REPLICAS} ingresses found"
    (victim,) = found
    scene.own_ports = client_ports(victim, server.http, server.grpc)
    scene.takes_backlog = True
    return victim


def _is_replaced(scene: Scene, victim: psutil.Process) -> bool:
    replicas = scene.server.processes(INGRESS)
    if len(replicas) != REPLICAS or victim in replicas:
        return False
    server = scene.server
    try:
        return sum(holds_queues(each) for each in replicas) == 1 and all(
            is_listening(replica, address)
            for replica in replicas
            for address in (server.http, server.grpc)
        )
    except psutil.NoSuchProcess:
        return False
