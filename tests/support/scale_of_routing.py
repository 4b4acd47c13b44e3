# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What happens to the routing table and to requests in a cluster of any size, one event at a time.

Each function prepares a cluster and returns what is to be measured: a call for one event, which
returns the bytes that leave the process, if any. There is no Ray, no network and no clock.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from cluster.controller.routing_publisher import RoutingPublisher
from deployments.contracts.routing_table import PollAnswer, RoutingTable, TableChanges
from deployments.pool_queue.messages import Load
from deployments.routing.load_signals import LoadSignals
from deployments.routing.node_choice import choose, take_back, to_ask
from deployments.routing.node_view import NodeView
from deployments.routing.router import Router
from deployments.slabs.pool import SlabPool
from tests.support import large_cluster as made
from tests.support.large_cluster import Event, Loop, Prepare, Size, size_of

_MS: Final = 1_000_000


# The routing table


class _Published:
    """A publisher of all models, and a router that follows it."""

    def __init__(self, size: Size) -> None:
        self.records = made.records(size)
        self.publisher = RoutingPublisher(self.records, lambda: 1)
        self.publisher.release()
        self.table = self.publisher.table()

    def change(self, models: Iterable[int], instance: int = 0) -> TableChanges:
        for model in models:
            name = made.model_name(model)
            self.records[name] = made.restarted(self.records[name], instance)
            self.publisher.changed(name)
        return self.publisher.changes_since(self.table.version)


def _change_event(size: Size, *, models: int = 1, instances: int | None = None) -> Event:
    published = _Published(size)
    if instances is not None:
        large = made.record(size, 0, instances=instances)
        published.records[large.name] = large
        published.publisher.changed(large.name)
    published.table = published.publisher.table()

    def event() -> int:
        changes = published.change(range(models))
        # Another router that asks gets its own.
        published.publisher.changes_since(published.table.version)
        published.table = RoutingTable(changes.version)
        return size_of(PollAnswer(changes, 1))

    return event


def change(size: Size, loop: Loop) -> Event:
    """An instance restarts: one model changes, which two routers take."""
    return _change_event(size)


def lose_node(size: Size, loop: Loop) -> Event:
    """A node is lost: all models with instances there change at once."""
    return _change_event(size, models=size.models_per_node * size.instances)


def change_large_pool(size: Size, loop: Loop) -> Event:
    """An instance restarts of a model that has one on each node."""
    return _change_event(size, instances=size.nodes)


def whole_table(size: Size, loop: Loop) -> Event:
    """The first of the routers that are new takes the whole table."""
    published = _Published(size)

    def event() -> int:
        published.publisher.changed()
        return size_of(PollAnswer(published.publisher.changes_since(0), 1))

    return event


def whole_table_again(size: Size, loop: Loop) -> Event:
    """Each other of them takes it, too."""
    published = _Published(size)

    def event() -> int:
        return size_of(PollAnswer(published.publisher.changes_since(0), 1))

    # The first one's message is kept.
    event()
    return event


class _Following:
    """A router that follows the table; it opens no lanes."""

    def __init__(self, size: Size, loop: Loop) -> None:
        self.published = _Published(size)
        self.router, self.signals = loop.run_until_complete(self._start())

    async def _start(self) -> tuple[Router, LoadSignals]:
        router = Router(made.node_id(0), b"secret", SlabPool(1 << 20), opens_on_demand=True)
        router.update(self.published.table)
        signals = LoadSignals(router, lambda: 0.0)
        signals.refresh()
        return router, signals

    async def update(self, changes: TableChanges) -> None:
        self.published.table = self.published.table.after(changes)
        self.router.update(self.published.table)
        self.signals.refresh()


def take_change(size: Size, loop: Loop) -> Event:
    """A router takes a change of one model: its table, its models and its pools."""
    following = _Following(size, loop)
    numbers = iter(range(size.models))

    def event() -> None:
        changes = following.published.change([next(numbers)])
        loop.run_until_complete(following.update(changes))

    return event


def sample_load(size: Size, loop: Loop) -> Event:
    """A router reads its counts, a quarter of a second later; all versions autoscale."""
    following = _Following(size, loop)

    def event() -> None:
        following.signals.refresh()
        following.signals.sample()

    return event


# Requests


def _views(size: Size, now_ns: int) -> list[NodeView]:
    views = []
    for node in range(size.nodes):
        view = NodeView(made.node_id(node), is_own=not node)
        busy = Load("", 1 + node % 7, execution_ns=10 * _MS, instance_count=4)
        view.learned(busy, now_ns - node * 1000)
        views.append(view)
    views[0].waiting_count = 3
    return views


def choose_node(size: Size, loop: Loop) -> Event:
    """A router chooses among as many nodes as the cluster has, all of which have said something."""
    views, random = _views(size, 2000 * _MS), Random(1)
    return lambda: choose(views, 2000 * _MS, random)


def choose_unheard(size: Size, loop: Loop) -> Event:
    """A router chooses where no other node has said anything lately, and all were just asked."""
    views, random = _views(size, 0), Random(1)
    for view in views:
        view.probed_ns = 2000 * _MS
    return lambda: choose(views, 2000 * _MS + 1000, random)


def move_requests(size: Size, loop: Loop) -> Event:
    """A node has said something while requests wait: what to take back, and whom to ask."""
    views, random = _views(size, 2000 * _MS), Random(1)

    def event() -> None:
        take_back(views, 2000 * _MS)
        for view in to_ask(views, 2000 * _MS, random):
            view.asked_ns = None

    return event


EVENTS: Final[tuple[Prepare, ...]] = (
    change,
    lose_node,
    change_large_pool,
    whole_table,
    whole_table_again,
    take_change,
    sample_load,
    choose_node,
    choose_unheard,
    move_requests,
)
