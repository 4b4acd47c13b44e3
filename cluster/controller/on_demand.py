# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mode ondemand: the models of the repositories are known, and loaded by their first use."""

from cluster.controller.host import Actors, Nodes
from cluster.controller.poll import NamesSource
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import ServerOptions
from cluster.residency.device_room import DeviceRoom
from cluster.residency.keeper import ResidencyKeeper
from cluster.residency.policy import ResidencyLimits


class OnDemand:
    """What the controller does in this mode beside waking.

    Args:
        options: The server's options.
        nodes: The nodes.
        actors: Asks instances how much they are used.
        source: Lists the repositories.
        lifecycle: The models.
    """

    def __init__(
        self,
        options: ServerOptions,
        nodes: Nodes,
        actors: Actors,
        source: NamesSource,
        lifecycle: ModelLifecycle,
    ) -> None:
        self._source = source
        self._lifecycle = lifecycle
        self.keeper = ResidencyKeeper(
            lifecycle.records,
            lifecycle.dormancy,
            actors.ask_progress,
            ResidencyLimits(options.ondemand_max_models, options.ondemand_memory_fraction),
            DeviceRoom(actors.placer, nodes.read_cluster, lifecycle.pool_of),
        )
        lifecycle.dormancy.room.wait_s = options.wake_timeout_secs

    async def look_at_names(self) -> None:
        """Know models that are new, and unload those that are gone; files are read by loads.

        A model whose files came with its load stays.

        Raises:
            TritonError: No repository can be listed.
        """
        names, duplicates = await self._source.list_names()
        wanted = set(names) - set(duplicates)
        records = self._lifecycle.records
        self._lifecycle.dormancy.know(sorted(wanted - records.keys()))
        absent = [n for n, record in records.items() if n not in wanted and record.is_on_demand]
        gone = self._source.watch.gone(n for n in absent if not self._is_given(n))
        await self._lifecycle.unload_all(gone)

    def _is_given(self, name: str) -> bool:
        """Whether a model's files came with its load, so that no repository tells of it."""
        return bool(self._lifecycle.override_of(name).files)
