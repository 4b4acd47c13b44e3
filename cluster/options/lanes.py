# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of the connections between Manta's own processes; see `docs/deployment.md`."""

from dataclasses import dataclass

from cluster.options import values
from cluster.options.flag import declared as _flag
from cluster.options.on_demand import OnDemandOptions
from deployments.settings.lane_settings import TLS_MODES, LaneSettings
from deployments.settings.port_range import read_port_range

LANES = "Lanes"


def _port_range(text: str) -> str:
    try:
        read_port_range(text)
    except ValueError as error:
        raise values.ValueRefusedError(f"invalid argument for --lane-port-range: {error}") from None
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOptions(OnDemandOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    lane_slab_threshold_bytes: int = _flag(
        65536,
        LANES,
        "Tensors from this size on travel through shared memory within a node.",
        values.at_least(1, "Error: --lane-slab-threshold-bytes must be greater than 0."),
    )
    lane_port_range: str = _flag(
        "",
        LANES,
        "<first>-<last>: ports at which processes of a node listen for other nodes; empty: any.",
        _port_range,
    )
    lane_tls: str = _flag(
        "ray",
        LANES,
        "TLS between nodes: off; ray, when Ray's is on, with its certificates; derived, also when"
        " it is not, with a certificate made from the cluster's secret.",
        values.choice("invalid argument for --lane-tls", *TLS_MODES),
    )
    instance_heartbeat_timeout_secs: float = _flag(
        10.0,
        LANES,
        "Seconds without progress until an instance is replaced; 0: off.",
        values.fraction,
    )


def lane_settings(options: LaneOptions) -> LaneSettings:
    """Return what processes have to know of lanes."""
    return LaneSettings(
        slab_threshold_bytes=options.lane_slab_threshold_bytes,
        heartbeat_timeout_s=options.instance_heartbeat_timeout_secs,
        ports=read_port_range(options.lane_port_range),
        tls=options.lane_tls,
    )
