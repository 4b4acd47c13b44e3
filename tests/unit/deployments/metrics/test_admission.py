# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from deployments.metrics.admission import AdmissionMetrics, render_admission


def test_the_page_has_refusals_by_reason_requests_and_limits():
    rows = [
        AdmissionMetrics("a", 1, 3, float("inf")),
        AdmissionMetrics("b", 2, 16, 16.25, {"queue_time": 7, "deadline": 1}),
    ]
    text = render_admission(rows).decode()
    for line in (
        'manta_admission_refused_total{model="b",reason="queue_time",version="2"} 7',
        'manta_admission_refused_total{model="b",reason="deadline",version="2"} 1',
        'manta_admission_outstanding_requests{model="a",version="1"} 3',
        'manta_admission_limit_requests{model="a",version="1"} +Inf',
        'manta_admission_limit_requests{model="b",version="2"} 16.25',
    ):
        assert line in text.splitlines()


def test_without_gates_the_page_says_nothing():
    assert render_admission([]) == b""
