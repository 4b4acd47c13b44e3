# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What all processes of a server have to know of its lanes."""

from dataclasses import dataclass
from typing import Final

from backends.api.evolving import evolves
from deployments.settings.port_range import ANY_PORT, PortRange

# What protects lanes between nodes: nothing; Ray's certificates, where Ray has any; those, or else
# a certificate made from the lane secret.
TLS_MODES: Final = ("off", "ray", "derived")


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """The server's options about lanes.

    Attributes:
        slab_threshold_bytes: Tensors at least this large travel through shared slabs.
        heartbeat_timeout_s: How long whoever owes an answer may be silent; 0.0 for ever.
        ports: Where processes listen for other nodes.
        tls: One of `TLS_MODES`, for lanes between nodes.
    """

    slab_threshold_bytes: int = 1 << 16
    heartbeat_timeout_s: float = 10.0
    ports: PortRange = ANY_PORT
    tls: str = "ray"


DEFAULT_LANES: Final = LaneSettings()


evolves(LaneSettings)
