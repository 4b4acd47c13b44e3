# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which dormant model's files come next to which nodes, before anybody needs them. Pure.

What a model's files are is learnt one model at a time, by reading it. What a node has of them it
has said: when it was asked to fetch them, and from time to time since, for others make it forget.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.config.placement import PlacementRules
from cluster.placement.affinity import refusal
from cluster.placement.demand import ClusterResources, NodeResources, fits
from deployments.model_files.prefetch import CacheView, Outcome, Prefetched

FIRST_INTERVAL_S: Final = 60.0
MOST_INTERVAL_S: Final = 3600.0
# What nodes have is asked again after that long.
VIEW_AGE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Dormant:
    """A model of which versions have no instance.

    Attributes:
        name: Its key.
        stamp: Of what they would be loaded from; another one means that it must be read again.
        used_s: When it was used last; minus infinity for never.
    """

    name: str
    stamp: Hashable
    used_s: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Content:
    """The files of a version, and where its instances may be.

    Attributes:
        version: Version number.
        key: Of the files, without agents.
        rules: Which nodes the model allows.
        demands: What instances reserve, by resource: of each kind of instance.
    """

    version: int
    key: str
    rules: PlacementRules = PlacementRules()
    demands: tuple[Mapping[str, float], ...] = ()

    def suits(self, node: NodeResources) -> bool:
        """Whether an instance may start on a node that has nothing else to do."""
        return not refusal(node, self.rules) and any(
            fits(wanted, node.total) for wanted in self.demands
        )


@dataclass(frozen=True, slots=True)
class _Known:
    stamp: Hashable
    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class _Failure:
    stamp: Hashable
    interval_s: float
    until_s: float


@dataclass(slots=True)
class _Node:
    """What is known of a node's cache.

    Attributes:
        held: Keys of files that are there.
        refused: By key: what there was no room for, in bytes.
        free_bytes: What may still come; None while nothing is known.
        looked_s: When it was asked what it has.
    """

    looked_s: float
    held: set[str] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)
    free_bytes: int | None = None

    @property
    def is_full(self) -> bool:
        return self.free_bytes is not None and self.free_bytes <= 0

    def lacks(self, key: str) -> bool:
        """Whether files are not there, and might find room."""
        if key in self.held or self.is_full:
            return False
        return self.free_bytes is None or self.refused.get(key, 0) <= self.free_bytes


class Prefetches:
    """What is known of models and nodes, and what is to be done next."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._failures: dict[str, _Failure] = {}
        self._nodes: dict[str, _Node] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of all files that are known."""
        return tuple(each.key for known in self._known.values() for each in known.contents)

    def saw(self, models: Collection[Dormant], cluster: ClusterResources, now_s: float) -> None:
        """Note which models and nodes there are; others are forgotten."""
        names = {model.name for model in models}
        self._known = {name: known for name, known in self._known.items() if name in names}
        self._failures = {name: each for name, each in self._failures.items() if name in names}
        self._nodes = {
            node.node_id: self._nodes.get(node.node_id) or _Node(now_s) for node in cluster.nodes
        }

    def unseen(self, now_s: float) -> tuple[str, ...]:
        """Return the nodes that are to be asked what they have."""
        return tuple(
            node_id
            for node_id, node in self._nodes.items()
            if now_s >= node.looked_s + VIEW_AGE_S and node.free_bytes is not None
        )

    def looked(self, node_id: str, view: CacheView | None, now_s: float) -> None:
        """Note what a node has; None leaves it as it was: nobody there has changed it."""
        node = self._nodes[node_id]
        node.looked_s = now_s
        if view is not None:
            node.held, node.free_bytes = set(view.held), view.free_bytes

    def choose(
        self, models: Sequence[Dormant], cluster: ClusterResources, now_s: float
    ) -> Dormant | None:
        """Return the model that is to be read, and then fetched to those nodes that lack it.

        Args:
            models: In the order of the repositories. Those used last go first.
            cluster: All nodes.
            now_s: The time.
        """
        if all(node.is_draining or self._nodes[node.node_id].is_full for node in cluster.nodes):
            return None
        for model in sorted(models, key=lambda each: -each.used_s):
            failure = self._failures.get(model.name)
            if failure is not None and failure.stamp == model.stamp and now_s < failure.until_s:
                continue
            known = self._known.get(model.name)
            if known is None or known.stamp != model.stamp:
                return model
            if any(self.lacking(content, cluster) for content in known.contents):
                return model
        return None

    def read(self, model: Dormant, contents: Iterable[Content]) -> None:
        """Note what a model's files are."""
        self._known[model.name] = _Known(model.stamp, tuple(contents))

    def lacking(self, content: Content, cluster: ClusterResources) -> tuple[str, ...]:
        """Return the nodes that shall fetch some files."""
        return tuple(
            node.node_id
            for node in cluster.nodes
            if self._nodes[node.node_id].lacks(content.key) and content.suits(node)
        )

    def answered(self, node_id: str, key: str, answer: Prefetched) -> None:
        """Note what came of a prefetch."""
        node = self._nodes.get(node_id)
        if node is None:
            return
        node.free_bytes = answer.free_bytes
        node.refused.pop(key, None)
        if answer.outcome is Outcome.THERE:
            node.held.add(key)
        elif answer.outcome is Outcome.NO_ROOM:
            node.refused[key] = answer.wanted_bytes

    def succeeded(self, model: Dormant) -> None:
        """Note that nothing failed of a model."""
        self._failures.pop(model.name, None)

    def failed(self, model: Dormant, now_s: float) -> bool:
        """Have a model left alone for a time that grows; return whether that is to be told."""
        before = self._failures.get(model.name)
        is_new = before is None or before.stamp != model.stamp
        interval_s = FIRST_INTERVAL_S if before is None or is_new else 2 * before.interval_s
        interval_s = min(interval_s, MOST_INTERVAL_S)
        self._failures[model.name] = _Failure(model.stamp, interval_s, now_s + interval_s)
        return is_new
