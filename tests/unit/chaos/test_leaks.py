# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as reserved afterwards."""

from dataclasses import replace

import pytest

from tests.chaos.leaks import Holding, Holdings, compare, growth, pending_of, sort_of

INGRESS = Holding("ServeReplica", {"socket": 30, "memfd": 4}, 90 << 20)
BEFORE = Holdings({7: INGRESS}, {"ModelInstance": 2})


def test_the_same_holdings_leak_nothing() -> None:
    assert list(compare(BEFORE, BEFORE)) == []


@pytest.mark.parametrize(
    ("after", "leak"),
    [
        (
            replace(BEFORE, actors={"ModelInstance": 3}),
            "3 actors of ModelInstance, before it was 2",
        ),
        (replace(BEFORE, actors={}), "0 actors of ModelInstance, before it was 2"),
        (replace(BEFORE, regions=("r",)), "region 'r' is still registered"),
        (replace(BEFORE, pending={"model=m": 2.0}), "2 requests still wait for model=m"),
        (replace(BEFORE, cache_files=("partial/x",)), "file 'partial/x' was left"),
        (
            replace(BEFORE, processes={7: INGRESS, 8: INGRESS}),
            "2 processes of ServeReplica, before it was 1",
        ),
        (
            replace(BEFORE, processes={9: replace(INGRESS, descriptors={"memfd": 100})}),
            "ServeReplica 9 holds 100 x memfd, before it was 4",
        ),
        (
            replace(BEFORE, processes={7: replace(INGRESS, bytes=300 << 20)}),
            "ServeReplica 7 grew from 90 to 300 MiB",
        ),
    ],
)
def test_what_is_reserved_afterwards_is_told(after: Holdings, leak: str) -> None:
    assert list(compare(BEFORE, after)) == [leak]


def test_what_a_successor_holds_is_compared_with_its_sort() -> None:
    assert not list(compare(BEFORE, replace(BEFORE, processes={9: INGRESS})))


def test_what_each_node_starts_with_its_first_load_is_no_leak() -> None:
    later = {**BEFORE.actors, "NodeFilesActor": 2}
    assert not list(compare(BEFORE, replace(BEFORE, actors=later)))
    too_many = {**BEFORE.actors, "NodeFilesActor": 3}
    assert list(compare(BEFORE, replace(BEFORE, actors=too_many)))


def test_growth_is_told_of_processes_that_lived_through() -> None:
    grown = replace(INGRESS, bytes=95 << 20)
    assert growth(BEFORE, replace(BEFORE, processes={7: grown, 8: grown})) == {
        "ServeReplica": 5 << 20
    }


@pytest.mark.parametrize(
    ("title", "sort"),
    [
        ("ray::simple/1#3", "simple/1"),
        ("ray::sums/1#2.wait_closed", "sums/1"),
        ("ray::ServeReplica:manta:Ingress", "ServeReplica"),
        ("ray::ModelController", "ModelController"),
    ],
)
def test_processes_of_a_sort_have_one_name(title: str, sort: str) -> None:
    assert sort_of(title) == sort


def test_waiting_requests_are_read_from_the_page_of_metrics() -> None:
    page = (
        "# TYPE nv_inference_pending_request_count gauge\n"
        'nv_inference_pending_request_count{model="a",version="1"} 0\n'
        'nv_inference_pending_request_count{model="b",version="1"} 3\n'
    )
    assert pending_of(page) == {'model="b",version="1"': 3.0}
