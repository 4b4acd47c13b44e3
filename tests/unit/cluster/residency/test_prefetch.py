# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which model's files come next, and to which nodes."""

from dataclasses import replace

from backends.config.placement import PlacementRules
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.residency.prefetch import (
    FIRST_INTERVAL_S,
    MOST_INTERVAL_S,
    VIEW_AGE_S,
    Content,
    Dormant,
    Prefetches,
)
from deployments.model_files.prefetch import CacheView, Outcome, Prefetched

A, B = Dormant("a", b"1"), Dormant("b", b"1")
ROOM = 100
CPU = ({"CPU": 0.001},)


def node(name: str, cpus: float = 4.0, *, draining: bool = False) -> NodeResources:
    return NodeResources(name, {"CPU": cpus}, names=frozenset({name}), is_draining=draining)


def cluster_of(*nodes: NodeResources) -> ClusterResources:
    return ClusterResources(nodes)


ONE = cluster_of(node("n"))


def content(key: str, **rules: object) -> Content:
    return Content(1, key, PlacementRules(**rules), CPU)  # type: ignore[arg-type]


def there(free_bytes: int = ROOM) -> Prefetched:
    return Prefetched(Outcome.THERE, free_bytes)


def prefetches(*models: Dormant, cluster: ClusterResources = ONE) -> Prefetches:
    found = Prefetches()
    found.saw(models, cluster, 0.0)
    return found


def test_models_used_last_come_first_and_then_those_of_the_repository_in_its_order() -> None:
    models = [A, B, Dormant("c", b"1", used_s=1.0), Dormant("d", b"1", used_s=2.0)]
    found = prefetches(*models)
    order = []
    while (model := found.choose(models, ONE, 0.0)) is not None:
        order.append(model.name)
        found.read(model, [content(model.name)])
        found.answered("n", model.name, there())
    assert order == ["d", "c", "a", "b"]


def test_a_model_whose_files_have_changed_is_fetched_again() -> None:
    found = prefetches(A)
    found.read(A, [content("k1")])
    found.answered("n", "k1", there())
    assert found.choose([A], ONE, 0.0) is None
    changed = replace(A, stamp=b"2")
    assert found.choose([changed], ONE, 0.0) == changed


def test_only_nodes_on_which_the_model_may_start_fetch_it() -> None:
    nodes = cluster_of(node("n"), node("o"), node("no-cpu", 0.0), node("drains", draining=True))
    found = prefetches(A, cluster=nodes)
    assert found.lacking(content("k"), nodes) == ("n", "o")
    assert found.lacking(content("k", nodes=("o",)), nodes) == ("o",)
    assert found.lacking(content("k", labels={"gpu": "yes"}), nodes) == ()
    assert found.lacking(replace(content("k"), demands=()), nodes) == ()


def test_a_node_that_has_come_fetches_what_others_have() -> None:
    found = prefetches(A)
    found.read(A, [content("k")])
    found.answered("n", "k", there())
    both = cluster_of(node("n"), node("o"))
    found.saw([A], both, 0.0)
    assert found.choose([A], both, 0.0) == A
    assert found.lacking(content("k"), both) == ("o",)


def test_nothing_is_read_when_no_node_has_room() -> None:
    found = prefetches(A, B)
    found.read(A, [content("k")])
    found.answered("n", "k", there(free_bytes=0))
    assert found.choose([A, B], ONE, 0.0) is None


def test_files_without_room_are_asked_for_again_once_there_is_as_much() -> None:
    found = prefetches(A, B)
    found.read(A, [content("k")])
    found.answered("n", "k", Prefetched(Outcome.NO_ROOM, 10, wanted_bytes=50))
    # A smaller one may find its room.
    assert found.choose([A, B], ONE, 0.0) == B
    assert found.choose([A], ONE, 0.0) is None
    found.looked("n", CacheView((), 50), VIEW_AGE_S)
    assert found.choose([A], ONE, 0.0) == A


def test_what_was_stopped_goes_on() -> None:
    found = prefetches(A)
    found.read(A, [content("k")])
    found.answered("n", "k", Prefetched(Outcome.STOPPED, ROOM))
    assert found.choose([A], ONE, 0.0) == A


def test_what_has_left_a_cache_is_fetched_again() -> None:
    found = prefetches(A)
    found.read(A, [content("k")])
    found.answered("n", "k", there())
    assert found.unseen(VIEW_AGE_S - 1) == ()
    assert found.unseen(VIEW_AGE_S) == ("n",)
    found.looked("n", CacheView(("k",), ROOM), VIEW_AGE_S)
    assert found.choose([A], ONE, VIEW_AGE_S) is None
    found.looked("n", CacheView((), ROOM), 2 * VIEW_AGE_S)
    assert found.choose([A], ONE, 2 * VIEW_AGE_S) == A


def test_a_node_where_nobody_can_tell_is_as_it_was() -> None:
    found = prefetches(A)
    found.read(A, [content("k")])
    found.answered("n", "k", there())
    found.looked("n", None, VIEW_AGE_S)
    assert found.choose([A], ONE, VIEW_AGE_S) is None
    assert found.unseen(2 * VIEW_AGE_S - 1) == ()


def test_a_node_that_never_fetched_is_not_asked_what_it_has() -> None:
    assert prefetches(A).unseen(VIEW_AGE_S) == ()


def test_a_failure_is_told_once_and_tried_again_with_growing_distance() -> None:
    found = prefetches(A)
    now_s, interval_s = 0.0, FIRST_INTERVAL_S
    assert found.failed(A, now_s)
    for _ in range(8):
        assert found.choose([A], ONE, now_s + interval_s - 1) is None
        now_s += interval_s
        assert found.choose([A], ONE, now_s) == A
        assert not found.failed(A, now_s)
        interval_s = min(2 * interval_s, MOST_INTERVAL_S)
    assert interval_s == MOST_INTERVAL_S
    found.succeeded(A)
    assert found.failed(A, now_s)


def test_after_a_failure_other_files_are_tried_at_once() -> None:
    found = prefetches(A, B)
    found.failed(A, 0.0)
    assert found.choose([A, B], ONE, 0.0) == B
    changed = replace(A, stamp=b"2")
    assert found.choose([changed], ONE, 0.0) == changed
    assert found.failed(changed, 0.0)


def test_models_that_left_are_forgotten() -> None:
    found = prefetches(A, B)
    found.read(A, [content("k")])
    found.saw([B], ONE, 0.0)
    assert found.keys == ()
    assert found.choose([], ONE, 0.0) is None


def test_an_answer_of_a_node_that_has_gone_is_nobodys() -> None:
    found = prefetches(A)
    found.answered("gone", "k", there())
    assert found.lacking(content("k"), ONE) == ("n",)
