# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a router opens the lane of a link."""

from dataclasses import dataclass

from deployments.lane.client import LaneClient
from deployments.lane.messages import limits_of
from deployments.lane.tls import client_tls
from deployments.routing.links import OnLost
from deployments.routing.pool import Link
from deployments.settings.lane_settings import DEFAULT_LANES, LaneSettings
from deployments.slabs.pool import SlabPool


@dataclass(frozen=True, slots=True)
class Dialling:
    """What all lanes of a router have in common.

    Attributes:
        secret: The cluster's lane secret.
        slabs: The slabs of this process.
        lanes: The server's options about lanes.
    """

    secret: bytes
    slabs: SlabPool
    lanes: LaneSettings = DEFAULT_LANES

    async def connect(self, link: Link, on_lost: OnLost) -> LaneClient:
        """Open a lane; see `LaneClient.connect`."""
        is_local = link.is_local
        return await LaneClient.connect(
            link.endpoint,
            same_node=is_local,
            secret=self.secret,
            slabs=self.slabs,
            limits=limits_of(self.lanes),
            on_lost=on_lost,
            tls=None if is_local else client_tls(self.lanes.tls, self.secret),
        )
