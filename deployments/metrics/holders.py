# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the processes that hold the queues of nodes; Triton has one node only."""

from typing import Final

from deployments.metrics.exposition import head

_CUT_OFF: Final = "manta_nodes_without_queue_port"


def render_holders(cut_off_count: int) -> bytes:
    """Return the lines that the metrics page has about nodes whose queues others cannot reach."""
    text = (
        "Number of nodes whose queues other nodes cannot reach, as no TCP port was found for them"
    )
    return "\n".join([*head(_CUT_OFF, "gauge", text), f"{_CUT_OFF} {cut_off_count}", ""]).encode()
