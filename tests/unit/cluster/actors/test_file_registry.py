# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes have which contents: the same in one process as over rows that nodes share."""

from collections.abc import Callable

import pytest

from cluster.actors.file_registry import FileRegistry
from deployments.model_files.registry import MemoryRegistry, Registry
from tests.support.registry_rows import DictRows

STALE_AFTER_S = 10.0


class Clock:
    """Seconds since 1970, as nodes have them."""

    def __init__(self) -> None:
        self.now_s = 1.8e9

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rows() -> DictRows:
    return DictRows()


# Returns the registry as one more node sees it.
OfNode = Callable[[], Registry]


@pytest.fixture(params=["memory", "rows"])
def of_node(request: pytest.FixtureRequest, clock: Clock, rows: DictRows) -> OfNode:
    memory = MemoryRegistry(clock, STALE_AFTER_S)
    return {
        "memory": lambda: memory,
        "rows": lambda: FileRegistry(rows, clock, STALE_AFTER_S),
    }[request.param]


def test_the_first_node_asks_the_store(of_node: OfNode) -> None:
    a, b = of_node(), of_node()
    assert a.claim("k", "a:1")
    assert not b.claim("k", "b:1")
    assert a.claim("k", "a:1")
    assert b.claim("other", "b:1")
    assert a.holders("k") == b.holders("k") == ("a:1", "b:1")
    assert a.holders("other") == ("b:1",)


def test_contents_whose_keys_begin_alike_are_apart(of_node: OfNode) -> None:
    a = of_node()
    assert a.claim("k", "a:1")
    assert a.claim("k1", "a:2")
    assert a.holders("k") == ("a:1",)


def test_nobody_asks_the_store_while_another_has_the_content(of_node: OfNode) -> None:
    a, b, c = of_node(), of_node(), of_node()
    assert a.claim("k", "a:1")
    a.tell("k", "a:1", "digest")
    assert not b.claim("k", "b:1")
    assert b.told("k") == "digest"
    a.leave("k", "a:1")
    assert not c.claim("k", "c:1")
    b.leave("k", "b:1")
    assert c.claim("k", "c:1")


def test_the_last_node_that_leaves_takes_everything_along(of_node: OfNode, rows: DictRows) -> None:
    a, b = of_node(), of_node()
    a.claim("k", "a:1")
    b.claim("k", "b:1")
    a.progressed("k", "a:1")
    a.tell("k", "a:1", "digest")
    a.leave("k", "a:1")
    b.leave("k", "b:1")
    b.leave("k", "b:1")
    assert (b.holders("k"), b.told("k"), rows.keys()) == ((), "", [])
    assert b.claim("k", "b:1")


def test_the_claim_of_a_node_that_leaves_is_free(of_node: OfNode) -> None:
    a, b = of_node(), of_node()
    a.claim("k", "a:1")
    b.claim("k", "b:1")
    # Whoever finds that a node has ended takes it out.
    b.leave("k", "a:1")
    assert b.claim("k", "b:1")
    assert b.holders("k") == ("b:1",)


def test_a_claim_without_progress_is_taken_over(of_node: OfNode, clock: Clock) -> None:
    a, b = of_node(), of_node()
    assert a.claim("k", "a:1")
    assert not b.claim("k", "b:1")
    clock.now_s += 9
    a.progressed("k", "a:1")
    b.progressed("k", "b:1")
    clock.now_s += 9.5
    assert not b.claim("k", "b:1")
    clock.now_s += 0.5
    assert b.claim("k", "b:1")
    assert not a.claim("k", "a:1")


def test_only_the_node_that_asks_the_store_tells_the_digest(of_node: OfNode, clock: Clock) -> None:
    a, b = of_node(), of_node()
    a.claim("k", "a:1")
    clock.now_s += STALE_AFTER_S
    b.claim("k", "b:1")
    a.tell("k", "a:1", "wrong")
    assert b.told("k") == ""
    b.tell("k", "b:1", "right")
    assert a.told("k") == "right"


def test_progress_is_a_row_each_five_seconds_at_most(rows: DictRows, clock: Clock) -> None:
    registry = FileRegistry(rows, clock, STALE_AFTER_S)
    registry.claim("k", "a:1")
    claimed = rows.writes
    for _ in range(100):
        registry.progressed("k", "a:1")
        clock.now_s += 0.25
    assert rows.writes - claimed == 5


def test_noting_progress_each_five_seconds_keeps_the_claim(rows: DictRows, clock: Clock) -> None:
    a, b = (FileRegistry(rows, clock, STALE_AFTER_S) for _ in range(2))
    a.claim("k", "a:1")
    for _ in range(100):
        clock.now_s += 4.75
        a.progressed("k", "a:1")
        assert not b.claim("k", "b:1")


def test_who_lost_its_claim_notes_no_progress_of_another(rows: DictRows, clock: Clock) -> None:
    a, b, c = (FileRegistry(rows, clock, STALE_AFTER_S) for _ in range(3))
    a.claim("k", "a:1")
    clock.now_s += STALE_AFTER_S
    assert b.claim("k", "b:1")
    clock.now_s += STALE_AFTER_S
    a.progressed("k", "a:1")
    assert c.claim("k", "c:1")


def test_what_a_node_announces_is_asked_of_it(of_node: OfNode) -> None:
    a, b = of_node(), of_node()
    a.announce("k", "a:1", "digest")
    assert not b.claim("k", "b:1")
    assert (b.told("k"), b.holders("k")) == ("digest", ("a:1", "b:1"))
    a.leave("k", "a:1")
    b.leave("k", "b:1")
    assert b.told("k") == ""


def test_what_was_told_of_a_content_outlives_what_is_announced(of_node: OfNode) -> None:
    a, b = of_node(), of_node()
    a.claim("k", "a:1")
    a.tell("k", "a:1", "digest")
    b.announce("k", "b:1", "another")
    assert a.told("k") == "digest"
    assert a.holders("k") == ("a:1", "b:1")


def test_contents_are_known_by_node(rows: DictRows, clock: Clock) -> None:
    a, b = (FileRegistry(rows, clock, STALE_AFTER_S) for _ in range(2))
    a.claim("k", "a:1")
    a.announce("k1", "a:1", "digest")
    b.claim("k", "b:1")
    assert {node: sorted(keys) for node, keys in b.contents().items()} == {
        "a:1": ["k", "k1"],
        "b:1": ["k"],
    }


class RowsBetween(DictRows):
    """Rows that let another go first, once, after a stale claim was read."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def get(self, key: bytes) -> bytes | None:
        row = super().get(key)
        if "/claim/" in key.decode() and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return row


def test_of_two_that_take_over_at_once_one_asks_the_store(clock: Clock) -> None:
    rows = RowsBetween()
    a, b, c = (FileRegistry(rows, clock, STALE_AFTER_S) for _ in range(3))
    a.claim("k", "a:1")
    clock.now_s += STALE_AFTER_S
    also: list[bool] = []
    rows.meanwhile = lambda: also.append(c.claim("k", "c:1"))
    assert not b.claim("k", "b:1")
    assert also == [True]
    assert c.claim("k", "c:1")
    # Nobody but the one that has it notes progress or tells, whoever had it before.
    clock.now_s += STALE_AFTER_S / 2
    a.progressed("k", "a:1")
    for node, registry in (("a:1", a), ("b:1", b), ("c:1", c)):
        registry.tell("k", node, f"digest of {node}")
        assert a.told("k") == ("digest of c:1" if registry is c else "")
    assert a.holders("k") == ("a:1", "b:1", "c:1")


def test_all_claims_on_a_content_go_with_the_last_node(rows: DictRows, clock: Clock) -> None:
    nodes = {f"{name}:1": FileRegistry(rows, clock, STALE_AFTER_S) for name in "abcdefghijkl"}
    for node, registry in nodes.items():
        assert registry.claim("k", node)
        clock.now_s += STALE_AFTER_S
    for node, registry in nodes.items():
        registry.leave("k", node)
    assert rows.keys() == []
