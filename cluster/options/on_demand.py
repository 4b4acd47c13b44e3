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
