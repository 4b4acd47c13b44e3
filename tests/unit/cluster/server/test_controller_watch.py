# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose controller is gone for good, as the process sees it that has started it."""

from cluster.controller.ownership import HEARTBEAT_S
from cluster.server.watches import MISSING_S, ControllerWatch


class Cluster:
    """Implements `WatchedController`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.controllers = 1
        self.has_state = True
        self.made = 0
        self.errors: list[Exception] = []
        self.said: list[str] = []
        self.watch = ControllerWatch(self, self.said.append, lambda: self.now_s)

    def is_there(self) -> bool:
        return self.controllers > 0

    def is_left(self) -> bool:
        return self.has_state

    def make_another(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.made += 1
        self.controllers = 1

    def pass_time(self, for_s: float) -> None:
        until_s = self.now_s + for_s
        while self.now_s < until_s:
            self.now_s += HEARTBEAT_S
            self.watch.look()


def test_a_controller_that_is_gone_for_good_is_replaced_and_the_operator_told():
    cluster = Cluster()
    cluster.pass_time(60)
    assert (cluster.made, cluster.said) == (0, [])
    cluster.controllers = 0
    cluster.pass_time(MISSING_S + 2 * HEARTBEAT_S)
    assert cluster.made == 1
    (line,) = cluster.said
    assert "controller of this server is gone" in line
    assert "Another one is started" in line


def test_a_controller_that_an_upgrade_replaces_is_left_to_it():
    cluster = Cluster()
    cluster.controllers = 0
    cluster.pass_time(MISSING_S - HEARTBEAT_S)
    cluster.controllers = 1
    cluster.pass_time(60)
    cluster.controllers = 0
    cluster.pass_time(MISSING_S - HEARTBEAT_S)
    assert (cluster.made, cluster.said) == (0, [])


def test_another_controller_that_cannot_be_started_is_tried_again_and_said_once():
    cluster = Cluster()
    cluster.errors = [ConnectionError("the head is away"), RuntimeError("a bug")]
    cluster.controllers = 0
    cluster.pass_time(60)
    assert cluster.made == 1
    assert len(cluster.said) == 1


def test_a_server_that_was_ended_in_order_gets_no_other_controller():
    cluster = Cluster()
    cluster.controllers = 0
    cluster.has_state = False
    cluster.pass_time(60)
    assert cluster.made == 0
    (line,) = cluster.said
    assert "start the server anew" in line
