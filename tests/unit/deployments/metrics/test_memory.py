# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from prometheus_client.parser import text_string_to_metric_families

from deployments.metrics.memory import render_memory
from deployments.supervision.memory_budget import MemoryBudget


def test_the_budget_of_an_ingress_is_shown() -> None:
    budget = MemoryBudget(1 << 40)
    assert budget.try_take((1 << 40) - 1)
    assert not budget.try_take(2)
    budget.give_back(1 << 39)
    families = list(text_string_to_metric_families(render_memory(budget).decode()))
    assert {row.name: (each.type, row.value) for each in families for row in each.samples} == {
        "manta_ingress_memory_limit_bytes": ("gauge", 1 << 40),
        "manta_ingress_memory_used_bytes": ("gauge", (1 << 39) - 1),
        "manta_ingress_memory_peak_bytes": ("gauge", (1 << 40) - 1),
        "manta_ingress_memory_refusals_total": ("counter", 1),
    }
    assert all(each.documentation for each in families)
