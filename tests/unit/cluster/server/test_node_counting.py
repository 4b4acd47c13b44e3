# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import threading
from typing import Any

from cluster.server.node_counting import NodeCountingPolicy


@dataclasses.dataclass
class Context:
    target_num_replicas: int = 3
    policy_state: dict[str, Any] = dataclasses.field(default_factory=dict)


class Nodes:
    """Nodes that are told when asked, once the test lets them."""

    def __init__(self, alive: int) -> None:
        self.alive = alive
        self.may_answer = threading.Event()
        self.asked = 0
        self.emptied: set[str] = set()
        self.labels: dict[str, dict[str, str]] = {}
        self.error: Exception | None = None

    def __call__(self) -> list[dict[str, Any]]:
        self.asked += 1
        self.may_answer.wait(30)
        if self.error is not None:
            raise self.error
        names = [f"n{at}" for at in range(self.alive)]
        rows = [
            {"NodeID": name, "Alive": True, "Labels": self.labels.get(name, {})} for name in names
        ]
        return [*rows, {"NodeID": "dead", "Alive": False}]

    def policy(self, replicas: int, clock: "Clock", **labels: str) -> NodeCountingPolicy:
        return NodeCountingPolicy(replicas, labels, self, lambda: self.emptied, clock)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def settled(policy: NodeCountingPolicy) -> NodeCountingPolicy:
    assert policy._look is not None
    policy._look.join(30)
    return policy


def test_a_node_count_that_takes_long_does_not_hold_up_serve():
    nodes = Nodes(4)
    policy = nodes.policy(2, Clock())
    assert policy(Context())[0] == 3
    assert policy(Context())[0] == 3
    nodes.may_answer.set()
    assert settled(policy)(Context())[0] == 8
    assert nodes.asked == 1


def test_nodes_are_counted_again_after_a_second():
    nodes, clock = Nodes(1), Clock()
    nodes.may_answer.set()
    policy = nodes.policy(1, clock)
    policy(Context())
    nodes.alive = 2
    assert settled(policy)(Context())[0] == 1
    clock.now_s = 1.0
    policy(Context())
    assert settled(policy)(Context())[0] == 2


def test_the_last_count_is_good_while_nodes_cannot_be_counted():
    nodes, clock = Nodes(2), Clock()
    nodes.may_answer.set()
    policy = nodes.policy(1, clock)
    policy(Context())
    settled(policy)
    nodes.error = ConnectionError("the head is gone")
    clock.now_s = 1.0
    policy(Context())
    assert settled(policy)(Context())[0] == 2


def test_nodes_that_drain_and_are_empty_have_no_replicas():
    nodes = Nodes(3)
    nodes.emptied = {"n1", "gone long since"}
    nodes.may_answer.set()
    policy = nodes.policy(2, Clock())
    policy(Context())
    assert settled(policy)(Context())[0] == 4


def test_one_replica_is_wanted_while_no_node_may_have_any():
    nodes = Nodes(1)
    nodes.emptied = {"n0"}
    nodes.may_answer.set()
    policy = nodes.policy(2, Clock())
    policy(Context())
    assert settled(policy)(Context())[0] == 2


def test_only_nodes_whose_labels_meet_the_selector_have_replicas():
    nodes = Nodes(3)
    nodes.labels = {"n0": {"role": "entry"}, "n1": {"role": "worker"}}
    nodes.may_answer.set()
    policy = nodes.policy(1, Clock(), role="entry")
    policy(Context())
    assert settled(policy)(Context())[0] == 1
