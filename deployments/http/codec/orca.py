# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The load report a client asks for with ``endpoint-load-metrics-format``, out of the metrics page.

Triton reports the utilization and the capacity of an LLM backend's key-value cache, and nothing
when no backend tells them.

Triton: server/src/orca_http.cc @e1db8a6
"""

import re
from typing import Final

import orjson

_BLOCKS: Final = re.compile(
    r"^nv_trt_llm_kv_cache_block_metrics\{([^}\n]*)\}\s*([0-9.]+)", re.MULTILINE
)
_TYPE: Final = re.compile(r'kv_cache_block_type="([^"]*)"')
_NEEDED: Final = ("used", "max", "tokens_per")


def load_report(page: str, form: str) -> str:
    """Return the value of ``endpoint-load-metrics``; empty when there is none.

    Args:
        page: The metrics page.
        form: ``json`` or ``text``; with another there is no report.
    """
    blocks: dict[str, float] = {}
    for labels, value in _BLOCKS.findall(page):
        kind = _TYPE.search(labels)
        if kind is not None:
            # Of several models the last one counts, as in Triton.
            blocks[kind[1]] = float(value)
    if not all(kind in blocks for kind in _NEEDED):
        return ""
    used, most, tokens = (blocks[kind] for kind in _NEEDED)
    utilization = used / most if most > 0 else 0.0
    capacity = int(most * tokens)
    if form == "json":
        named = {"kv_cache_utilization": utilization, "max_token_capacity": capacity}
        return "JSON " + orjson.dumps({"named_metrics": named}).decode()
    if form == "text":
        return (
            f"TEXT named_metrics.kv_cache_utilization={utilization:f}, "
            f"named_metrics.max_token_capacity={capacity}"
        )
    return ""
