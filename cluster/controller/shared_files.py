# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has files that came with a load reach the instances, whatever their node.

The controller writes such files to a directory of its own node, and names them with their digests.
Where there are more nodes, its node also takes them into its cache, from where other nodes fetch
them (`deployments.model_files.loaded`). A node that joins later has that done when it asks.
"""

import asyncio
import logging
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backends.api.errors import InternalError, ResourceExhaustedError
from cluster.controller.host import NodeFiles, Nodes
from cluster.instances.node_files import NodeFilesSettings
from cluster.models.contracts import Candidate
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import lane_settings
from cluster.placement.demand import SMALLEST_FRACTION, ClusterResources
from cluster.threads import FILES
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.loaded import is_of_load, list_folder, location_of

_log = logging.getLogger(__name__)


def node_files_settings(options: ServerOptions) -> NodeFilesSettings:
    """Return what the processes that fetch files are started with."""
    return NodeFilesSettings(
        options.model_cache_directory,
        options.model_cache_max_bytes,
        "INFO" if options.log_info else "WARNING",
        lane_settings(options),
    )


@dataclass(slots=True, eq=False)
class SharedFiles:
    """The files of loads.

    Attributes:
        offering: What gives files from one to others.
        settings: Of their caches.
    """

    nodes: Nodes
    offering: NodeFiles
    settings: NodeFilesSettings
    _shared: dict[str, asyncio.Task[ModelFiles | None]] = field(default_factory=dict)
    # By folder.
    _locations: dict[str, str] = field(default_factory=dict)

    async def share(
        self, candidate: Candidate, cluster: ClusterResources
    ) -> tuple[ModelFiles | None, Mapping[str, float]]:
        """Return what a candidate's instances fetch, and what they have to reserve besides.

        Neither for a candidate whose files are the repository's. What agents have made on the only
        node there is stays there, for it may be large; and so does what a cache has no room for.

        Raises:
            TritonError: The files cannot be read, or cannot be given to other nodes.
        """
        if not candidate.is_temporary:
            return None, {}
        folder, is_alone = candidate.model_dir, len(cluster.nodes) <= 1
        if not is_alone or candidate.override.files:
            if folder not in self._shared:
                self._locations[folder] = location_of(self.nodes.node_id, folder)
                share = self._share(self._locations[folder], is_offered=not is_alone)
                self._shared[folder] = asyncio.create_task(share)
            try:
                files = await asyncio.shield(self._shared[folder])
            except Exception:
                # The next attempt to load tries it again.
                self._shared.pop(folder, None)
                raise
            if files is not None:
                return files, {}
        return None, {self.nodes.own_node: SMALLEST_FRACTION}

    async def remove(self, candidate: Candidate) -> None:
        """Remove a candidate's files from this node, and from the caches when there is no room."""
        if not candidate.is_temporary:
            return
        folder = candidate.model_dir
        self._shared.pop(folder, None)
        await FILES.run(shutil.rmtree, folder, ignore_errors=True)
        if self._locations.pop(folder, None) is not None:
            await self.offering.withdraw_files(tuple(self._locations.values()))

    async def adopt(self, specs: Iterable[InstanceSpec]) -> None:
        """Keep what an earlier controller has shared and live instances were made with, only."""
        for spec in specs:
            if spec.files is not None and is_of_load(spec.files.location):
                self._locations[spec.model_dir] = spec.files.location
        await self.offering.withdraw_files(tuple(self._locations.values()))

    async def _share(self, location: str, *, is_offered: bool) -> ModelFiles | None:
        try:
            files = await FILES.run(list_folder, location)
        except OSError as error:
            raise InternalError(f"the files of a load cannot be read: {error}") from error
        if is_offered:
            try:
                await self.offering.offer_files(self.settings, location)
            except ResourceExhaustedError as error:
                _log.warning("files of a load stay on the controller's node: %s", error.message)
                return None
        return files
