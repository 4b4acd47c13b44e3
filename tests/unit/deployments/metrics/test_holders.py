# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from prometheus_client.parser import text_string_to_metric_families

from deployments.metrics.holders import render_holders


def test_nodes_whose_queues_others_cannot_reach_are_counted() -> None:
    (family,) = text_string_to_metric_families(render_holders(2).decode())
    (row,) = family.samples
    assert (row.name, family.type, row.value) == ("manta_nodes_without_queue_port", "gauge", 2)
    assert family.documentation
