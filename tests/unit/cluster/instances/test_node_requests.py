# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray is asked for the nodes that are wanted now, whatever it has missed."""

import pytest
from ray.exceptions import RayError

from cluster.instances.prestart import RequestedNodes
from cluster.placement.node_requests import NODE_ID_LABEL, NodeRequest, NodeShape
from tests.support.fake_ray import FakeRay

SMALL = NodeRequest(NodeShape((("CPU", 4.0),)))
LARGE = NodeRequest(NodeShape((("CPU", 64.0),), (("zone", "a"),)), frozenset({"n1", "n2"}))


def asked(fake: FakeRay) -> list[dict[str, float]]:
    """Return what nodes are waited for must have."""
    return [row["bundles"][0] for row in fake.groups.values() if row["state"] == "PENDING"]


def test_a_node_is_asked_for_with_its_labels_and_none_of_those_there_are(fake: FakeRay) -> None:
    RequestedNodes().become([LARGE])
    (row,) = fake.groups.values()
    assert row["bundles"] == [{"CPU": 64.0}]
    assert row["bundle_label_selector"] == [{"zone": "a", NODE_ID_LABEL: "!in(n1,n2)"}]


def test_a_request_that_stays_keeps_its_place_with_the_autoscaler(fake: FakeRay) -> None:
    nodes = RequestedNodes()
    nodes.become([SMALL])
    nodes.become([SMALL, LARGE])
    assert len(fake.groups) == 2
    assert asked(fake) == [{"CPU": 4.0}, {"CPU": 64.0}]


def test_a_request_that_is_not_made_any_more_is_withdrawn(fake: FakeRay) -> None:
    nodes = RequestedNodes()
    nodes.become([SMALL, LARGE])
    nodes.become([LARGE])
    assert asked(fake) == [{"CPU": 64.0}]
    nodes.become([])
    assert not asked(fake)
    nodes.become([LARGE])
    assert asked(fake) == [{"CPU": 64.0}]


def test_nodes_of_one_shape_apart_from_others_are_two_requests(fake: FakeRay) -> None:
    RequestedNodes().become([SMALL, NodeRequest(SMALL.shape, frozenset({"n1"}))])
    assert len(asked(fake)) == 2


def test_what_ray_has_missed_is_asked_for_with_the_next_call(fake: FakeRay) -> None:
    nodes = RequestedNodes()
    fake.is_away = True
    with pytest.raises(RayError):
        nodes.become([SMALL])
    fake.is_away = False
    nodes.become([SMALL])
    assert asked(fake) == [{"CPU": 4.0}]


def test_what_could_not_be_withdrawn_is_withdrawn_with_the_next_call(fake: FakeRay) -> None:
    nodes = RequestedNodes()
    nodes.become([SMALL])
    fake.is_away = True
    with pytest.raises(RayError):
        nodes.become([])
    fake.is_away = False
    nodes.become([])
    assert not asked(fake)
