# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from deployments.http.codec.orca import load_report

PAGE = "".join(
    f'nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{kind}",model="llm",version="1"}} '
    f"{value}\n"
    for kind, value in (("fraction", 0.5), ("used", 25), ("max", 100), ("tokens_per", 64))
)


def test_a_report_tells_the_cache_s_load():
    assert load_report(PAGE, "json") == (
        'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":6400}}'
    )
    assert load_report(PAGE, "text") == (
        "TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=6400"
    )


@pytest.mark.parametrize(
    ("page", "form"),
    [("", "json"), (PAGE.replace("tokens_per", "other"), "text"), (PAGE, "xml"), (PAGE, "")],
)
def test_without_the_numbers_or_a_known_form_there_is_none(page, form):
    assert load_report(page, form) == ""


def test_an_empty_cache_is_not_used():
    assert '"kv_cache_utilization":0.0' in load_report(PAGE.replace("} 100", "} 0"), "json")
