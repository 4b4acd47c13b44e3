# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's JSON for what a model version's instances have counted."""

from typing import Any

from deployments.metrics.counters import ResponseStatistics, Snapshot


def _duration(count: int, ns: int) -> dict[str, int]:
    return {"count": count, "ns": ns}


def to_json(name: str, version: str, totals: Snapshot) -> dict[str, Any]:
    """Render one element of ``model_stats``, in Triton's field order.

    The keys are also the fields of the gRPC message ModelStatistics.
    """
    computed = totals.success_count - totals.cache_hit_count
    return {
        "name": name,
        "version": version,
        "last_inference": totals.last_inference_ms,
        "inference_count": totals.inference_count,
        "execution_count": totals.execution_count,
        "inference_stats": {
            "success": _duration(totals.success_count, totals.success_ns),
            "fail": _duration(sum(totals.fail_count.values()), totals.fail_ns),
            "queue": _duration(totals.success_count, totals.queue_ns),
            "compute_input": _duration(computed, totals.compute_input_ns),
            "compute_infer": _duration(computed, totals.compute_infer_ns),
            "compute_output": _duration(computed, totals.compute_output_ns),
            "cache_hit": _duration(totals.cache_hit_count, totals.cache_hit_ns),
            "cache_miss": _duration(totals.cache_miss_count, totals.cache_miss_ns),
        },
        "response_stats": {
            str(position): _response_json(row) for position, row in sorted(totals.responses.items())
        },
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _duration(row.count, row.compute_input_ns),
                "compute_infer": _duration(row.count, row.compute_infer_ns),
                "compute_output": _duration(row.count, row.compute_output_ns),
            }
            for size, row in sorted(totals.batches.items())
        ],
        "memory_usage": [],
    }


def _response_json(row: ResponseStatistics) -> dict[str, dict[str, int]]:
    # Responses leave as soon as the model sends them, so there is no output time to tell apart.
    answered_count = row.success_count + row.fail_count
    return {
        "compute_infer": _duration(answered_count, row.success_ns + row.fail_ns),
        "compute_output": _duration(row.success_count, 0),
        "success": _duration(row.success_count, row.success_ns),
        "fail": _duration(row.fail_count, row.fail_ns),
        "empty_response": _duration(row.empty_count, row.empty_ns),
        "cancel": _duration(0, 0),
    }
