# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gauges of versions that autoscale."""

from prometheus_client.parser import text_string_to_metric_families

from deployments.metrics.autoscaling import ScaledVersion, render_autoscaling


def test_each_version_has_what_it_shall_have_and_what_it_has() -> None:
    page = render_autoscaling([ScaledVersion("m", 1, 4, 2), ScaledVersion("n", 3, 0, 0)]).decode()
    samples = {
        (sample.name, sample.labels["model"], sample.labels["version"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert samples == {
        ("manta_autoscaling_desired_instances", "m", "1"): 4,
        ("manta_autoscaling_desired_instances", "n", "3"): 0,
        ("manta_autoscaling_instances", "m", "1"): 2,
        ("manta_autoscaling_instances", "n", "3"): 0,
    }


def test_models_of_one_name_are_told_apart_by_their_namespaces() -> None:
    page = render_autoscaling([ScaledVersion("/repository/m", 1, 4, 2)]).decode()
    labels = '{model="m",namespace="/repository",version="1"}'
    assert f"manta_autoscaling_instances{labels} 2" in page.splitlines()


def test_nothing_is_shown_where_nothing_autoscales() -> None:
    assert render_autoscaling([]) == b""
