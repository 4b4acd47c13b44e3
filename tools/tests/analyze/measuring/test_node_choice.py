# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Of a cluster the nodes measure that are free, alike and most."""

import pytest

from backends.api.errors import UnavailableError
from cluster.placement.demand import NodeResources
from manta_tools.analyze.measuring.node_choice import choose_nodes
from manta_tools.analyze.options.values import ALL


def node(name, cpus=8.0, gpus=0.0, *, taken=0.0, taken_gpus=0.0, is_draining=False, **labels):
    total = {"CPU": cpus, "memory": 1e9} | ({"GPU": gpus} if gpus else {})
    return NodeResources(
        name * 16,
        total,
        {**total, "CPU": cpus - taken, **({"GPU": gpus - taken_gpus} if gpus else {})},
        {key.replace("__", "/").replace("_", "-"): text for key, text in labels.items()},
        frozenset((name * 16, f"10.0.0.{ord(name)}", f"host-{name}")),
        is_draining,
    )


def chosen(*nodes, most=ALL):
    choice = choose_nodes(nodes, most)
    return [each.node_id[0] for each in choice.nodes], " ".join(choice.notes)


def test_nodes_that_are_not_free_are_left_out():
    busy = (
        node("b", taken=1.0),
        node("c", gpus=1.0, taken_gpus=1.0),
        node("d", is_draining=True),
        node("e", cpus=0.0),
    )
    names, notes = chosen(node("a"), *busy)
    assert names == ["a"]
    assert notes == "3 nodes are left out: they are not free"


def test_nodes_unlike_the_most_common_are_left_out_by_name():
    names, notes = chosen(node("a", 16.0), node("b"), node("c"))
    assert names == ["b", "c"]
    assert "node 10.0.0.97/aaaaaaaa is left out: it has 16 CPUs" in notes
    assert "2 of 3 free nodes have 8 CPUs" in notes


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"gpus": 2.0}, "8 CPUs, 2 GPUs"),
        ({"instance_type": "m7.large"}, "8 CPUs, instance type m7.large"),
        ({"gpus": 1.0, "ray.io__accelerator_type": "H200"}, "8 CPUs, 1 GPUs H200"),
    ],
)
def test_gpus_and_instance_types_make_nodes_unlike(other, expected):
    names, notes = chosen(node("a", **other), node("b"), node("c"))
    assert names == ["b", "c"]
    assert f"it has {expected}, and" in notes


def test_of_kinds_that_are_as_common_the_larger_measures():
    assert chosen(node("a", 4.0), node("b", 16.0))[0] == ["b"]


def test_no_more_nodes_than_were_asked_for_measure():
    assert chosen(node("c"), node("a"), node("b"), most=2)[0] == ["a", "b"]


def test_without_a_free_node_what_to_do_is_said():
    with pytest.raises(UnavailableError, match=r"none of the 2 nodes .* is free, .*wait for"):
        choose_nodes([node("a", taken=1.0), node("b", taken=8.0)], ALL)
