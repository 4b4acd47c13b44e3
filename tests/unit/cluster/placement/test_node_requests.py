# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes are asked for while instances wait: shapes as a table, and when in virtual time."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from ray._private.label_utils import validate_label_selector

from backends.api.model_config import InstanceGroup
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_requests import (
    IN_VAIN_S,
    MOST_IN_VAIN_S,
    SETTLE_S,
    NodeRequest,
    NodeShape,
    decide,
    requests_of,
    shape_for,
)
from tests.support.gpu_clusters import EIGHT, cluster, mig_gpu, specs_of

LOOK_S = 2.0
GPU = InstanceGroup("g", "KIND_GPU", 1)
CPU = InstanceGroup("g", "KIND_CPU", 1)
MIG = {"ray_resources": '{"mig_1g.10gb": 1}'}
MIGS = (mig_gpu(0, "1g.10gb"),)
SMALL, LARGE = NodeShape((("GPU", 1.0),)), NodeShape((("GPU", 8.0),))


def node(name: str, gpus: float = 1, **labels: str) -> NodeResources:
    total = {"CPU": 8.0, "GPU": gpus}
    return NodeResources(name, total, total, {"ray.io/node-id": name, **labels})


@pytest.mark.parametrize(
    ("group", "parameters", "there", "expected"),
    [
        pytest.param(GPU, {}, EIGHT, {"GPU": 1}, id="a whole GPU, whatever of it is reserved"),
        pytest.param(replace(GPU, gpus=(3,)), {}, EIGHT, {"GPU": 4}, id="a node that has GPU 3"),
        pytest.param(GPU, MIG, cluster({"a": MIGS}), {"GPU": 1}, id="MIG unknown to Ray"),
        pytest.param(GPU, {"ray_num_gpus": "2"}, EIGHT, {"GPU": 2}, id="several GPUs"),
        pytest.param(
            GPU,
            MIG,
            cluster({"a": MIGS}, {"mig_1g.10gb": 1}),
            {"mig_1g.10gb": 1},
            id="MIG that nodes offer to Ray",
        ),
        pytest.param(
            CPU, {"placement.nodes": "x", "ray_num_cpus": "2"}, EIGHT, {"CPU": 2}, id="a named node"
        ),
    ],
)
def test_a_node_is_asked_for_that_has_what_ray_counts_of_the_instance(
    group: InstanceGroup,
    parameters: Mapping[str, str],
    there: ClusterResources,
    expected: dict[str, float],
) -> None:
    (spec,) = specs_of(group, parameters)
    shape = shape_for(replace(spec, label_selector={"disk": "fast"}), there)
    assert shape is not None
    asked = dict(shape.resources)
    assert {name: asked[name] for name in expected} == expected
    assert asked["CPU"] == max(spec.num_cpus, expected.get("CPU", 0))
    assert shape.labels == (("disk", "fast"),)


def test_no_node_is_asked_for_where_the_model_names_its_id() -> None:
    (spec,) = specs_of(GPU)
    assert shape_for(replace(spec, label_selector={"ray.io/node-id": "x"}), EIGHT) is None


def test_the_node_that_is_asked_for_is_none_of_those_there_are() -> None:
    request = NodeRequest(NodeShape(SMALL.resources, (("disk", "fast"),)), frozenset("ba"))
    assert request.label_selector == {"disk": "fast", "ray.io/node-id": "!in(a,b)"}
    assert validate_label_selector(request.label_selector) is None
    fast = node("c", disk="fast")
    assert request.is_met_by(fast)
    assert not request.is_met_by(node("c"))
    assert not request.is_met_by(node("c", 0, disk="fast"))
    assert not request.is_met_by(node("a", disk="fast"))
    assert not request.is_met_by(replace(fast, is_draining=True))


class _Controller:
    """One that looks at who waits, and at the nodes, every two seconds."""

    def __init__(self, nodes: str) -> None:
        self.nodes = {name: node(name) for name in nodes}
        self.waiting: dict[str, NodeShape] = {}
        self.asked: Mapping[NodeShape, object] = {}
        self.now_s = 1000.0
        self.log: list[tuple[float, frozenset[NodeRequest]]] = []

    def wait(self, names: Iterable[str], shape: NodeShape = SMALL) -> None:
        self.waiting |= dict.fromkeys(names, shape)

    def run(self, for_s: float) -> frozenset[NodeRequest]:
        """Look for so long; returns what is asked for in the end."""
        end_s = self.now_s + for_s
        while self.now_s < end_s:
            self.now_s += LOOK_S
            self.asked = decide(self.asked, self.waiting, self.nodes.values(), self.now_s)  # type: ignore[arg-type]
            requests = requests_of(self.asked)  # type: ignore[arg-type]
            if not self.log or self.log[-1][1] != requests:
                self.log.append((self.now_s, requests))
        return self.log[-1][1]


def test_one_node_is_asked_for_whoever_waits_for_the_same() -> None:
    there = _Controller("a")
    there.wait("xyz")
    assert there.run(100) == {NodeRequest(SMALL, frozenset("a"))}
    there.wait("w", LARGE)
    assert there.run(100) == {
        NodeRequest(SMALL, frozenset("a")),
        NodeRequest(LARGE, frozenset("a")),
    }


def test_a_request_ends_with_the_wait() -> None:
    there = _Controller("a")
    there.wait("x")
    assert there.run(LOOK_S)
    there.waiting.clear()
    assert not there.run(LOOK_S)


def test_a_request_ends_when_the_node_is_there_whatever_else_comes_and_goes() -> None:
    there = _Controller("ab")
    there.wait("x")
    there.run(LOOK_S)
    del there.nodes["b"]
    there.nodes["small"] = node("small", gpus=0)
    assert there.run(100) == {NodeRequest(SMALL, frozenset("ab"))}
    there.nodes["c"] = node("c")
    assert not there.run(LOOK_S)


def test_the_next_node_is_asked_for_when_the_last_one_has_helped_some() -> None:
    there = _Controller("a")
    there.wait("xy")
    there.run(LOOK_S)
    there.nodes["b"] = node("b")
    assert not there.run(10)
    del there.waiting["x"]
    assert not there.run(SETTLE_S - 12)
    assert there.run(14) == {NodeRequest(SMALL, frozenset("ab"))}


def test_nodes_that_help_nobody_are_asked_for_ever_less_often() -> None:
    there = _Controller("a")
    there.wait("x")
    for number in range(8):
        assert there.run(LOOK_S + MOST_IN_VAIN_S)
        there.nodes = {"a": node("a"), f"new{number}": node(f"new{number}")}
        there.run(LOOK_S)
    begins = [at_s for at_s, requests in there.log if requests]
    ends = [at_s for at_s, requests in there.log if not requests]
    pauses = [begin - end for end, begin in zip(ends, begins[1:], strict=False)]
    assert pauses[:4] == [IN_VAIN_S, 2 * IN_VAIN_S, 4 * IN_VAIN_S, 8 * IN_VAIN_S]
    assert set(pauses[4:]) == {MOST_IN_VAIN_S}
