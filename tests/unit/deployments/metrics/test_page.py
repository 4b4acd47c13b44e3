# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics page, line by line."""

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from deployments.metrics.counters import Snapshot, merge
from deployments.metrics.host import HostMetrics, HostSampler
from deployments.metrics.page import ModelMetrics, render
from deployments.settings.metrics_settings import MetricsSettings

HOST = HostMetrics(0.045, 25276063744, 566951936)


def page(*models: ModelMetrics) -> list[str]:
    return render(models, HOST).decode().splitlines()


def row(**fields: object) -> ModelMetrics:
    statistics = fields.pop("statistics", None) or merge([])
    return ModelMetrics("plain", "1", statistics, **fields)


def values(lines: list[str]) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_families_come_in_tritons_order_with_tritons_help():
    lines = page(row())
    heads = [line.split(" ", 3)[2:] for line in lines if line.startswith("# HELP")]
    assert [name for name, _ in heads] == [
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us",
        "nv_inference_compute_input_duration_us",
        "nv_inference_compute_infer_duration_us",
        "nv_inference_compute_output_duration_us",
        "nv_inference_pending_request_count",
        "nv_model_load_duration_secs",
        "nv_pinned_memory_pool_total_bytes",
        "nv_pinned_memory_pool_used_bytes",
        "nv_cpu_utilization",
        "nv_cpu_memory_total_bytes",
        "nv_cpu_memory_used_bytes",
    ]
    assert heads[0][1] == "Number of successful inference requests, all batch sizes"
    assert lines[1] == "# TYPE nv_inference_request_success counter"
    assert render([], HOST).endswith(b"\n")


def test_without_models_only_the_host_is_shown():
    names = {line.split("_")[1] for line in page() if not line.startswith("#")}
    assert names == {"pinned", "cpu"}


def test_summaries_and_histograms_look_as_in_triton():
    statistics = Snapshot(
        success_count=3,
        success_ns=6_000_000,
        latencies=[{5: 2, 7: 1}, {}, {}, {}, {}],
        bucket_counts=[2, 0, 1],
        first_response_ms=700,
    )
    settings = MetricsSettings(has_summaries=True, has_histograms=True, quantiles=(0.5, 0.999))
    model = row(statistics=statistics, first_response_bounds=(100.0, 500.0))
    lines = render([model], HOST, settings=settings).decode().splitlines()
    found = values(lines)
    labels = 'model="plain",version="1"'
    summary = "nv_inference_request_summary_us"
    assert found[f"{summary}_count{{{labels}}}"] == "3"
    assert found[f"{summary}_sum{{{labels}}}"] == "6000"
    assert found[f'{summary}{{{labels},quantile="0.5"}}'] == "5"
    assert found[f'{summary}{{{labels},quantile="0.999"}}'] == "7"
    assert found[f'nv_inference_queue_summary_us{{{labels},quantile="0.5"}}'] == "Nan"
    histogram = "nv_inference_first_response_histogram_ms"
    assert found[f"{histogram}_sum{{{labels}}}"] == "700"
    buckets = [found[f'{histogram}_bucket{{{labels},le="{le}"}}'] for le in ("100", "500", "+Inf")]
    assert buckets == ["2", "2", "3"]
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert families.index("nv_cpu_memory_used_bytes") < families.index(histogram)
    assert families.index(histogram) < families.index(summary)
    assert len([name for name in families if name.endswith("_summary_us")]) == 5
    kinds = {family.type for family in text_string_to_metric_families("\n".join(lines) + "\n")}
    assert {"summary", "histogram"} <= kinds


def test_latency_counters_can_be_left_out():
    lines = render([row()], HOST, settings=MetricsSettings(has_counters=False)).decode()
    assert "duration_us" not in lines
    assert "nv_inference_count{" in lines


def test_every_failure_reason_exists_from_the_start():
    found = values(page(row()))
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        key = f'nv_inference_request_failure{{model="plain",reason="{reason}",version="1"}}'
        assert found[key] == "0"


def test_numbers_and_units_are_tritons():
    statistics = Snapshot(
        success_count=3, success_ns=50_304_615, inference_count=11, pending_count=2
    )
    found = values(page(row(statistics=statistics, load_duration_ns=1_234_567)))
    labels = '{model="plain",version="1"}'
    assert found[f"nv_inference_request_success{labels}"] == "3"
    assert found[f"nv_inference_request_duration_us{labels}"] == "50304"
    assert found[f"nv_inference_count{labels}"] == "11"
    assert found[f"nv_inference_pending_request_count{labels}"] == "2"
    assert found[f"nv_model_load_duration_secs{labels}"] == "0.001234567"
    assert found["nv_cpu_utilization"] == "0.045"
    assert found["nv_cpu_memory_total_bytes"] == "25276063744"


def test_tags_become_labels_and_are_escaped():
    lines = page(row(metric_tags={"team": 'a"b\\c'}))
    assert 'nv_inference_count{_team="a\\"b\\\\c",model="plain",version="1"} 0' in lines


def test_rows_of_one_model_version_are_added():
    rows = [row(statistics=Snapshot(pending_count=2)) for _ in range(2)]
    found = values(page(*rows))
    assert found['nv_inference_pending_request_count{model="plain",version="1"}'] == "4"


def test_cache_families_exist_only_for_models_with_a_cache():
    assert not any("nv_cache" in line for line in page(row()))
    statistics = Snapshot(cache_hit_count=5)
    found = values(page(row(statistics=statistics, has_cache=True)))
    assert found['nv_cache_num_hits_per_model{model="plain",version="1"}'] == "5"


@given(st.text(), st.text(), st.integers(0, 10**18))
def test_any_name_and_tag_reads_back_as_it_was(name, tag, count):
    model = ModelMetrics(name, "1", Snapshot(execution_count=count), metric_tags={"tag": tag})
    text = render([model], HOST).decode()
    (sample,) = (
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        # The parser's name of a counter.
        if sample.name == "nv_inference_exec_count_total"
    )
    assert sample.labels == {"_tag": tag, "model": name, "version": "1"}
    assert math.isclose(sample.value, count)


def test_the_host_is_read_from_proc_once_a_second(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n")
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2 3\n")
    sampler = HostSampler(str(tmp_path))
    assert sampler.sample(0) == HostMetrics(0.2, 102400, 61440)
    stat.write_text("cpu  60 0 10 120 10 0 0 0 5 0\n")
    assert sampler.sample(999_999_999).cpu_utilization == 0.2
    assert sampler.sample(1_000_000_000).cpu_utilization == 0.5


def test_a_host_without_proc_is_all_zeros(tmp_path):
    assert HostSampler(str(tmp_path / "none")).sample(0) == HostMetrics()


def test_a_model_in_a_namespace_has_it_as_a_label():
    lines = page(row(namespace="/r/a"), row(namespace="/r/b"))
    assert 'nv_inference_count{model="plain",namespace="/r/a",version="1"} 0' in lines
    assert 'nv_inference_count{model="plain",namespace="/r/b",version="1"} 0' in lines
