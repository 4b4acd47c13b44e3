# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of what runs on which nodes of a cluster; see `docs/nodes.md`."""

from collections.abc import Mapping
from dataclasses import dataclass

from backends.config.placement import read_label_selector
from cluster.options import values
from cluster.options.flag import declared as _flag
from cluster.options.lanes import LaneOptions

NODES = "Nodes"


def _label_selector(text: str) -> str:
    try:
        if text:
            read_label_selector(text)
    except ValueError:
        raise values.ValueRefusedError(
            f"invalid argument for --ingress-label-selector: expected a JSON object of Ray's label"
            f' conditions, for example {{"ingress": "true"}}, got \'{text}\''
        ) from None
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions(LaneOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    ingress_label_selector: str = _flag(
        "",
        NODES,
        "Labels that a node must have for an ingress, as a JSON object in Ray's syntax; empty: all"
        " nodes have one.",
        _label_selector,
    )
    consolidate_nodes: bool = _flag(
        False,
        NODES,
        "Empty under-used nodes without an ingress, so that Ray's autoscaler can remove them.",
    )
    consolidate_after_secs: float = _flag(
        300.0,
        NODES,
        "Seconds that a node must be under-used before it is emptied.",
        values.fraction,
    )


def ingress_label_selector(options: NodeOptions) -> Mapping[str, str]:
    """Return the conditions of nodes with an ingress; none for all nodes."""
    text = options.ingress_label_selector
    return read_label_selector(text) if text else {}
