# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics page of a node, and of nodes without an ingress that this one tells for."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from backends.api.errors import TritonError
from backends.api.model_identifier import name_of, namespace_of
from deployments.access.counters import AccessCounters
from deployments.admission.admissions import Admissions
from deployments.contracts.control import RolloutAction, RolloutControl
from deployments.contracts.routing_table import ModelReadyState
from deployments.data_plane.cold_starts import cold_starts_text
from deployments.data_plane.statistics import DEADLINE_S, Entry, StatisticsCollector
from deployments.metrics.access import render_access
from deployments.metrics.admission import AdmissionMetrics, render_admission
from deployments.metrics.autoscaling import ScaledVersion, render_autoscaling
from deployments.metrics.counters import Snapshot
from deployments.metrics.distributions import bounds_ms
from deployments.metrics.holders import render_holders
from deployments.metrics.host import GpuMetrics, HostMetrics, MachineSampler
from deployments.metrics.model_files import render_repositories
from deployments.metrics.node_roles import ReadNodeRoles
from deployments.metrics.page import ModelMetrics, render
from deployments.metrics.rollouts import render_rollouts
from deployments.metrics.tenants import render_tenants
from deployments.routing.router import Router
from deployments.settings.metrics_settings import MetricsSettings
from deployments.tenants.desk import TenantDesk

_log = logging.getLogger(__name__)


class MetricsPage:
    """Makes the page.

    Args:
        router: Knows the instances, and what was counted in this process.
        collector: Has the others tell what they have counted.
        control: Tells of rollouts; None where there are none.

    Attributes:
        read_node_roles: Tells which nodes have no ingress; None when all have one.
        tenants: Counts what tenants do; None where there are none.
        access: What was counted about callers; None without an access policy.
    """

    def __init__(
        self,
        router: Router,
        collector: StatisticsCollector,
        control: RolloutControl | None = None,
    ) -> None:
        self._control = control
        self.read_node_roles: ReadNodeRoles | None = None
        self.tenants: TenantDesk | None = None
        self.access: AccessCounters | None = None
        self._router = router
        self._collector = collector
        self._machine: MachineSampler | None = None

    async def make(self) -> bytes:
        """Return the page as it is now."""
        table = self._router.table
        settings = table.settings.metrics
        entries = [entry for entry in self.ready_entries() if entry[1].config is not None]
        own, others = self._router.node_id, await self._told_nodes()
        counted = await self._collector.collect_by_node(entries, (own, *others))
        rows = [
            self._metrics_of(entry, statistics, "" if node_id == own else node_id)
            for node_id, of_node in counted.items()
            for entry, statistics in zip(entries, of_node, strict=True)
            # Most models are not on most nodes.
            if statistics is not None
        ]
        # Not on the loop: the drivers of GPUs may take their time.
        host, gpus = await asyncio.to_thread(self._sample_machine, settings)
        cache = self._router.cache
        page = render(rows, host, gpus, settings, {} if cache is None else cache.gauges())
        page += render_holders(len(self._router.node_pools.cut_off_nodes()))
        scaled = render_autoscaling(_scaled_versions(self.ready_entries()))
        page += cold_starts_text(table) + render_repositories(table.reachable) + scaled
        if self.tenants is not None:
            page += render_tenants(self.tenants.counts)
        page += render_access(self.access)
        page += render_admission(_admission_rows(self._router.models.admissions))
        return page + render_rollouts(await self._rollouts())

    async def _rollouts(self) -> Sequence[Mapping[str, Any]]:
        """Return what the controller says of the rollouts; nothing where it does not answer."""
        if not self._router.models.rollouts or self._control is None:
            return ()
        try:
            async with asyncio.timeout(DEADLINE_S):
                told = await self._control.rollout("", RolloutAction.GET, {})
        except TimeoutError:
            reason = f"the model controller has not answered within {DEADLINE_S:g} s"
        except TritonError as error:
            reason = error.message
        else:
            return list(told["rollouts"])
        _log.warning("rollouts are left out of the metrics: %s", reason)
        return ()

    def ready_entries(self) -> list[Entry]:
        """Return the versions that are ready, each with its model's key."""
        return [
            (model.name, entry)
            for model in self._router.table.models.values()
            for entry in model.versions
            if entry.state is ModelReadyState.READY
        ]

    async def _told_nodes(self) -> tuple[str, ...]:
        """Return the nodes without an ingress whose metrics this one tells."""
        if self.read_node_roles is None:
            return ()
        return (await self.read_node_roles()).told_by(self._router.node_id)

    def _metrics_of(self, at: Entry, statistics: Snapshot, node: str) -> ModelMetrics:
        (key, entry), settings = at, self._router.table.settings.metrics
        assert entry.config is not None  # noqa: S101 - the caller has looked
        return ModelMetrics(
            name_of(key),
            str(entry.version),
            statistics,
            load_duration_ns=entry.load_duration_ns,
            metric_tags=entry.config.metric_tags,
            has_cache=self._router.cache is not None and entry.config.response_cache,
            first_response_bounds=bounds_ms(entry.config) if settings.has_histograms else (),
            namespace=namespace_of(key),
            node=node,
        )

    def _sample_machine(
        self, settings: MetricsSettings
    ) -> tuple[HostMetrics | None, tuple[GpuMetrics, ...]]:
        if self._machine is None:
            self._machine = MachineSampler(settings.interval_ms)
        return self._machine.sample(
            time.monotonic_ns(), has_cpu=settings.has_cpu, has_gpu=settings.has_gpu
        )


def _admission_rows(admissions: Admissions) -> list[AdmissionMetrics]:
    return [
        AdmissionMetrics(
            name_of(key),
            version,
            gate.outstanding,
            gate.limit,
            {str(reason): count for reason, count in gate.refusals.counts.items()},
            namespace_of(key),
        )
        for (key, version), gate in admissions.gates().items()
    ]


def _scaled_versions(entries: Sequence[Entry]) -> list[ScaledVersion]:
    return [
        ScaledVersion(key, entry.version, entry.desired_instances, len(entry.instances))
        for key, entry in entries
        if entry.desired_instances is not None
    ]
