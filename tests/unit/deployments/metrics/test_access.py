# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from prometheus_client.parser import text_string_to_metric_families

from deployments.access.counters import AccessCounters
from deployments.access.refusals import Method, Reason
from deployments.metrics.access import render_access


def test_without_a_policy_the_page_says_nothing_of_callers() -> None:
    assert render_access(None) == b""


def test_refusals_denials_and_reloads_are_on_the_page() -> None:
    counters = AccessCounters(revision=3)
    counters.refusals[Method.JWT, Reason.EXPIRED] = 4
    counters.denials["grpc"] = 2
    counters.reloads["taken"] = 1
    text = render_access(counters).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["manta_access_policy_revision",] == 3
    assert found["manta_access_unauthenticated_total", "jwt", "expired"] == 4
    assert found["manta_access_denied_total", "grpc"] == 2
    assert found["manta_access_policy_reloads_total", "taken"] == 1
    assert found["manta_access_policy_reloads_total", "refused"] == 0
