# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many idle workers nodes are asked for."""

from cluster.placement.demand import NodeResources
from cluster.residency.prestart import KEPT_S, IdleWorkers

FREE, FULL = 4.0, 0.0
NONE: frozenset[str] = frozenset()


def node(
    name: str, free: float = FREE, cpus: float = 4.0, *, draining: bool = False
) -> NodeResources:
    return NodeResources(name, {"CPU": cpus}, {"CPU": free}, is_draining=draining)


def asked(workers: IdleWorkers, *nodes: NodeResources, at_s: float = 0.0) -> dict[str, int]:
    counts = workers.missing(nodes, NONE, at_s)
    workers.asked(counts, at_s)
    return counts


def test_each_node_is_asked_once_for_what_it_shall_have() -> None:
    workers = IdleWorkers(2)
    assert asked(workers, node("a"), node("b")) == {"a": 2, "b": 2}
    assert asked(workers, node("a"), node("b"), node("c")) == {"c": 2}


def test_what_an_instance_has_taken_is_asked_for_again() -> None:
    workers = IdleWorkers(2)
    asked(workers, node("a"), node("b"))
    workers.taken("a")
    assert asked(workers, node("a"), node("b")) == {"a": 1}


def test_instances_beyond_the_idle_workers_have_taken_no_more_than_there_were() -> None:
    workers = IdleWorkers(1)
    workers.taken("a")
    asked(workers, node("a"))
    for _ in range(3):
        workers.taken("a")
    assert asked(workers, node("a")) == {"a": 1}


def test_node_that_was_away_is_asked_as_a_new_one() -> None:
    workers = IdleWorkers(1)
    asked(workers, node("a"), node("b"))
    assert asked(workers, node("b")) == {}
    assert asked(workers, node("a"), node("b")) == {"a": 1}


def test_nodes_where_nothing_shall_start_are_not_asked() -> None:
    nodes = (node("drains", draining=True), node("emptied"), node("no-cpu", cpus=0.0))
    assert IdleWorkers(1).missing(nodes, frozenset({"emptied"}), 0.0) == {}


def test_workers_that_ray_has_ended_are_asked_for_again() -> None:
    workers = IdleWorkers(1)
    asked(workers, node("full", FULL), node("free"))
    assert asked(workers, node("full", FULL), node("free"), at_s=KEPT_S - 1) == {}
    assert asked(workers, node("full", FULL), node("free"), at_s=KEPT_S) == {"full": 1}
