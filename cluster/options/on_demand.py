# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of models that have no instance until they are used; see `docs/on-demand.md`."""

from dataclasses import dataclass

from cluster.options import values
from cluster.options.flag import declared as _flag

ON_DEMAND = "On demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandOptions:
    """A part of `cluster.options.table.ServerOptions`."""

    wake_max_requests: int = _flag(
        1000,
        ON_DEMAND,
        "Requests that may wait in an ingress for a model version without an instance.",
        values.at_least(1, "Error: --wake-max-requests must be greater than 0."),
    )
    wake_max_bytes: int = _flag(
        64 << 20,
        ON_DEMAND,
        "Bytes of tensors that all requests may have together that wait so in an ingress.",
        values.at_least(1, "Error: --wake-max-bytes must be greater than 0."),
    )
    wake_timeout_secs: float = _flag(
        120.0, ON_DEMAND, "Seconds that a request may wait so.", values.fraction
    )
    prestart_workers: int = _flag(
        1,
        ON_DEMAND,
        "Idle Ray workers that each node keeps for the next instances while models are dormant.",
        values.at_least(0, "Error: --prestart-workers must not be negative."),
    )
    prefetch_cache_fraction: float = _flag(
        0.0,
        ON_DEMAND,
        "Part of a node's model cache up to which files of dormant models are fetched there before"
        " their first use. 0: they are not.",
        values.part,
    )
    ondemand_max_models: int = _flag(
        0,
        ON_DEMAND,
        "Model versions that keep instances in mode ondemand; those used longest ago rest. 0: any"
        " number.",
        values.at_least(0, "Error: --ondemand-max-models must not be negative."),
    )
    ondemand_memory_fraction: float = _flag(
        0.9,
        ON_DEMAND,
        "Part of a node's memory that instances may have in mode ondemand before some rest.",
        values.fraction,
    )
