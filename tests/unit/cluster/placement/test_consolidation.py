# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which node is emptied: what fits elsewhere as a table of cases, and when in virtual time."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from cluster.placement.consolidation import (
    MOST_MOVING_S,
    ConsolidationState,
    Resident,
    _use_of,
    can_be_emptied,
    decide,
)
from cluster.placement.demand import ClusterResources, NodeResources
from deployments.instance.spec import DeviceAssignment
from tests.unit.cluster.placement.test_node_choice import node, spec

AFTER_S = 300.0
LOOK_S = 10.0


def on(node_id: str, model: str = "m", **parameters: str) -> Resident:
    made = spec(**parameters)
    name = f"{model}/1#{node_id}@1"
    return Resident(replace(made, model_name=model, name=name), node_id)


def with_device(resident: Resident) -> Resident:
    device = DeviceAssignment(resident.node_id, "GPU-0", 0)
    return replace(resident, spec=replace(resident.spec, device=device))


A, B, C = node("a", 7), node("b", 6), node("c", 6)
X, Y, Z = node("a", 7, "x"), node("b", 6, "y"), node("c", 6, "x")


@pytest.mark.parametrize(
    ("nodes", "residents", "expected"),
    [
        pytest.param((A, B), [on("a")], True, id="room elsewhere"),
        pytest.param((A,), [on("a")], False, id="no other node"),
        pytest.param((A, node("b", 0.5)), [on("a")], False, id="no room elsewhere"),
        pytest.param((A, replace(B, is_draining=True)), [on("a")], False, id="the other drains"),
        pytest.param(
            (A, node("b", 1.5)), [on("a", "m"), on("a", "n")], False, id="room for one of two"
        ),
        pytest.param(
            (A, node("b", 1.5), node("c", 1.5)),
            [on("a", "m"), on("a", "n")],
            True,
            id="room for each on another",
        ),
        pytest.param(
            (A, node("b", 2.5)),
            [on("a", model) for model in "lmn"],
            False,
            id="room for two of three",
        ),
        pytest.param((A, B), [on("a", nodes="a")], False, id="tied to its node"),
        pytest.param((A, B), [on("a", nodes="a,b")], False, id="tied to some nodes"),
        pytest.param((A, B), [on("a", labels='{"disk": "fast"}')], False, id="no such label"),
        pytest.param((A, B), [with_device(on("a"))], False, id="has a GPU"),
        pytest.param((A, B), [on("a"), on("b")], False, id="its like is on the only other"),
        pytest.param((A, B, C), [on("a"), on("b")], True, id="another node is without its like"),
        pytest.param(
            (A, B), [on("a", "m"), on("b", "n")], True, id="another model is not its like"
        ),
        pytest.param((A, B), [on("a", strategy="pack"), on("b")], True, id="those that pack"),
        pytest.param((A, B), [on("a"), on("a")], True, id="both move together: apart as before"),
        pytest.param((X, Y, Z), [on("a"), on("b")], True, id="another node of the zone"),
        pytest.param(
            (X, Y, node("c", 6, "y")), [on("a"), on("b")], False, id="its zone would be without"
        ),
    ],
)
def test_a_node_can_be_emptied_where_the_rules_of_placement_are_kept(
    nodes: tuple[NodeResources, ...], residents: Sequence[Resident], expected: bool
) -> None:
    assert can_be_emptied("a", ClusterResources(nodes), residents) is expected


class Looks:
    """A cluster of three nodes that is looked at every ten seconds."""

    def __init__(self, *nodes: NodeResources) -> None:
        self.nodes = nodes or (A, B, C)
        self.residents = [on("a")]
        self.removable = {"a"}
        self.now_s = 1000.0
        self.state = ConsolidationState()

    def look(self) -> ConsolidationState:
        cluster = ClusterResources(self.nodes)
        self.state = decide(
            self.state, cluster, self.residents, self.removable, self.now_s, AFTER_S
        )
        self.now_s += LOOK_S
        return self.state

    def over(self, seconds: float) -> Iterator[ConsolidationState]:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            yield self.look()


def leaving(states: Iterator[ConsolidationState]) -> set[str]:
    return {node_id for state in states for node_id in state.leaving}


def test_a_node_is_emptied_once_it_was_under_used_for_long() -> None:
    here = Looks()
    assert leaving(here.over(AFTER_S)) == set()
    assert here.look().leaving == {"a"}


def test_a_node_that_was_used_in_between_begins_anew() -> None:
    here = Looks()
    assert leaving(here.over(AFTER_S - LOOK_S)) == set()
    here.nodes = (node("a", 1), B, C)
    here.look()
    here.nodes = (A, B, C)
    assert leaving(here.over(AFTER_S)) == set()
    assert here.look().leaving == {"a"}


@pytest.mark.parametrize(
    "here",
    [
        pytest.param(Looks(node("a", 3), B, C), id="more than half of it is reserved"),
        pytest.param(Looks(replace(A, is_draining=True), B, C), id="it drains already"),
        pytest.param(Looks(A), id="what is there fits nowhere else"),
    ],
)
def test_other_nodes_are_left_alone(here: Looks) -> None:
    assert leaving(here.over(3 * AFTER_S)) == set()


def test_the_head_entries_and_empty_nodes_are_left_alone() -> None:
    here = Looks()
    here.removable = {"b", "c"}
    assert leaving(here.over(3 * AFTER_S)) == set()


def test_one_node_is_emptied_at_a_time_the_least_used_first() -> None:
    here = Looks(A, node("b", 7), C)
    here.residents = [on("a", "m"), on("a", "n"), on("b", "o")]
    here.removable = {"a", "b"}
    assert leaving(here.over(AFTER_S + 5 * LOOK_S)) == {"b"}


def test_an_emptied_node_is_kept_free_until_it_is_gone() -> None:
    here = Looks()
    list(here.over(AFTER_S + LOOK_S))
    here.residents = [on("b")]
    assert here.look().leaving == set()
    assert here.state.kept_free == {"a"}
    here.nodes = (B, C)
    assert here.look() == ConsolidationState()


def test_what_was_moved_is_left_alone_for_as_long_again() -> None:
    here = Looks()
    list(here.over(AFTER_S + LOOK_S))
    here.residents, here.removable = [on("b")], {"a", "b"}
    # The autoscaler has not removed the node, of which there have to be so many perhaps.
    states = list(here.over(AFTER_S))
    assert leaving(iter(states)) == set()
    assert states[-1].kept_free == {"a"}
    assert leaving(here.over(AFTER_S)) == set()
    assert leaving(here.over(2 * LOOK_S)) == {"b"}


def test_a_move_that_takes_too_long_is_given_up() -> None:
    here = Looks()
    list(here.over(AFTER_S + LOOK_S))
    assert leaving(here.over(MOST_MOVING_S - LOOK_S)) == {"a"}
    assert leaving(here.over(AFTER_S)) == set()


def test_a_resource_that_ray_does_not_list_as_free_is_in_use() -> None:
    assert _use_of(NodeResources("a", {"CPU": 8.0, "GPU": 2.0}, {"CPU": 6.0})) == 1.0
    assert _use_of(NodeResources("a", {"CPU": 8.0}, {"CPU": 6.0})) == 0.25
    assert _use_of(NodeResources("a", {"node:a": 1.0, "CPU": 0.0}, {})) == 0.0


def test_a_node_that_cannot_be_emptied_has_its_turn_again_after_the_others() -> None:
    here = Looks(A, node("b", 7), C)
    here.residents = [on("a", nodes="a"), on("b", "m"), on("b", "n")]
    here.removable = {"a", "b"}
    assert leaving(here.over(AFTER_S)) == set()
    assert here.look().leaving == set()
    assert here.look().leaving == {"b"}


def test_a_look_at_thousands_of_instances_takes_little() -> None:
    count = 200
    nodes = tuple(node(f"n{number}", 5) for number in range(count))
    residents = [on(f"n{i}", f"m{(40 * i + j) // 2}") for i in range(count) for j in range(40)]
    here = Looks(*nodes)
    here.residents, here.removable = residents, {each.node_id for each in nodes}
    here.look()
    here.now_s += AFTER_S
    begun_s = time.process_time()
    here.look()
    assert time.process_time() - begun_s < 10.0
