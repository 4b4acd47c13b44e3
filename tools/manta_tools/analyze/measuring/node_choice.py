# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a Ray cluster measure: those that are free, and alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backends.api.errors import UnavailableError
from cluster.placement.demand import NodeResources

CPU: Final = "CPU"
GPU: Final = "GPU"
_GPU_TYPE_LABEL: Final = "ray.io/accelerator-type"
# Ray has a resource of this name beside the label, also where it is too old for labels.
_GPU_TYPE_RESOURCE: Final = "accelerator_type:"
_INSTANCE_TYPE_LABELS: Final = ("node.kubernetes.io/instance-type", "instance-type")


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """What has to be the same on two nodes for their measurements to be comparable.

    Attributes:
        cpus: What Ray counts.
        gpus: The same.
        gpu_type: As Ray names it; empty for unknown.
        instance_type: As a label names it; empty for unknown.
    """

    cpus: float
    gpus: float = 0.0
    gpu_type: str = ""
    instance_type: str = ""

    def __str__(self) -> str:
        """Render as a note says it."""
        parts = [f"{self.cpus:g} CPUs"]
        if self.gpus:
            parts.append(f"{self.gpus:g} GPUs {self.gpu_type}".strip())
        if self.instance_type:
            parts.append(f"instance type {self.instance_type}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Choice:
    """The nodes that measure.

    Attributes:
        nodes: The nodes.
        kind: What each of them has.
        notes: Why others do not, a sentence each.
    """

    nodes: tuple[NodeResources, ...]
    kind: Kind
    notes: tuple[str, ...]


def choose_nodes(nodes: Sequence[NodeResources], most: int) -> Choice:
    """Choose among the live nodes of a cluster.

    Args:
        nodes: All of them.
        most: How many measure at most.

    Raises:
        UnavailableError: None is free.
    """
    able = sorted((each for each in nodes if each.total.get(CPU, 0.0) >= 1), key=name_of)
    free = [each for each in able if is_free(each)]
    if not free:
        raise UnavailableError(
            f"none of the {len(able)} nodes of the Ray cluster with CPUs is free, expected one at "
            "least with all its CPUs and GPUs unreserved; wait for what runs there, add nodes, or "
            "leave out --nodes"
        )
    kinds = Counter(map(kind_of, free))
    kind = max(kinds, key=lambda each: (kinds[each], each))
    notes = [
        f"node {name_of(each)} is left out: it has {kind_of(each)}, and {kinds[kind]} of "
        f"{len(free)} free nodes have {kind}"
        for each in free
        if kind_of(each) != kind
    ]
    if len(able) > len(free):
        notes.append(f"{len(able) - len(free)} nodes are left out: they are not free")
    alike = tuple(each for each in free if kind_of(each) == kind)
    return Choice(alike[:most], kind, tuple(notes))


def is_free(node: NodeResources) -> bool:
    """Whether nothing is reserved of a node's CPUs and GPUs, and it stays."""
    return not node.is_draining and all(
        node.available.get(name, 0.0) >= node.total.get(name, 0.0) for name in (CPU, GPU)
    )


def kind_of(node: NodeResources) -> Kind:
    """Return what a node has."""
    return Kind(
        node.total.get(CPU, 0.0),
        node.total.get(GPU, 0.0),
        node.labels.get(_GPU_TYPE_LABEL, "") or _named_type(node.total),
        next((node.labels[name] for name in _INSTANCE_TYPE_LABELS if name in node.labels), ""),
    )


def name_of(node: NodeResources) -> str:
    """Return what lines call a node: its address, and the beginning of its id."""
    # An address sorts before a host name.
    address = min(node.names - {node.node_id}, default="")
    return f"{address}/{node.node_id[:8]}" if address else node.node_id[:8]


def _named_type(resources: Mapping[str, float]) -> str:
    names = sorted(name for name in resources if name.startswith(_GPU_TYPE_RESOURCE))
    return names[0].removeprefix(_GPU_TYPE_RESOURCE) if names else ""
