# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The data plane: one surface for every transport.

HTTP and gRPC are codecs over this class, so both behave the same by construction. It knows what
Triton answers about models and servers; it knows no bytes.

Triton: core/src/server.cc, server/src/http_server.cc @73aad7c
"""

import re
from collections.abc import Awaitable, Collection, Sequence
from typing import Any, Final

import msgspec

from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest
from backends.config.pbtxt import to_json
from deployments.contracts.control import ClusterControl, RepositoryControl, RolloutControl
from deployments.contracts.routing_table import ModelReadyState, lookup_error
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Call, Headers, Stage
from deployments.data_plane.metrics_page import MetricsPage
from deployments.data_plane.settings_plane import SettingsPlane
from deployments.data_plane.stages import Stages
from deployments.data_plane.statistics import Entry, Recent, StatisticsCollector
from deployments.metrics.statistics_json import to_json as statistics_json
from deployments.routing.router import Router
from deployments.routing.served_model import ServedModel
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import RegionSink, leave_in_regions
from deployments.slabs.pool import SlabPool
from deployments.tracing.tracer import Arrival, Tracer

# The Triton release whose protocol behaviour is served; clients compare it, people read it.
TRITON_VERSION: Final = "2.73.0"

EXTENSIONS: Final = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)

_INT64_MAX: Final = 2**63 - 1
_LEADING_INTEGER: Final = re.compile(r"\s*([+-]?[0-9]{1,20})")

# As old as the page may be that a load report in an answer's header is made of.
_PAGE_AGE_S: Final = 1.0
# As long as Triton waits for a model to say whether it is ready.
_READINESS_TIMEOUT_S: Final = 5.0


class DataPlane:
    """What every transport asks.

    Args:
        server_id: The name in server metadata (``--id``).
        strict_readiness: Whether ready needs every model ready.
        router: Carries requests.
        slabs: Shared slabs large request bodies may be received into.
        control: The controller.
        node_id: Ray node of this process.
        allow_client_memory: ``--allow-client-shm``.
        tracer: Traces requests; without one, none is traced.

    Attributes:
        page: Makes the metrics page.
        settings: Log and trace settings and shared-memory regions.
        tracer: Traces requests; protocols ask whether it is on.
        has_started: Whether the start-up models were attempted; once true it stays so.
        draining: Whether readiness is withdrawn; requests are still served.
        exiting: Whether requests are refused.
        stages: What surrounds requests.
    """

    def __init__(
        self,
        server_id: str,
        router: Router,
        slabs: SlabPool,
        control: ClusterControl,
        *,
        strict_readiness: bool = True,
        node_id: str = "",
        allow_client_memory: bool = False,
        tracer: Tracer | None = None,
    ) -> None:
        self.slabs = slabs
        self.tracer = tracer or Tracer()
        self.repository: RepositoryControl = control
        self.rollouts: RolloutControl = control
        self._collector = StatisticsCollector(router, control)
        self.page = MetricsPage(router, self._collector, control)
        self._page = Recent(self.page.make)
        self.has_started = False
        self.draining = False
        self.exiting = False
        self._server_id = server_id
        self._strict_readiness = strict_readiness
        self._router = router
        self._memory = RegionMemory()
        self.settings = SettingsPlane(
            lambda: router.table.settings,
            control,
            self.resolve,
            node_id=node_id,
            allow_client_memory=allow_client_memory,
            cuda=self._memory.cuda,
        )
        self.stages = Stages(router, self.tracer, self.settings, self._memory)

    def server_live(self) -> bool:
        """Whether the server runs."""
        return not self.exiting

    def server_ready(self) -> bool:
        """Whether the server, and under strict readiness every model, can take requests."""
        table = self._router.table
        if not table.initialised or table.exiting or self.draining or self.exiting:
            return False
        if not self._strict_readiness:
            return True
        return all(model.counts_as_ready for model in table.models.values())

    def server_metadata(self) -> dict[str, Any]:
        """Return name, version and extensions."""
        return {
            "name": self._server_id,
            "version": TRITON_VERSION,
            "extensions": list(EXTENSIONS),
        }

    def resolve(self, name: str, version: str = "") -> ServedModel:
        """Return the ready version a request means.

        Args:
            name: Model name.
            version: Decimal version number; empty for the newest ready one.

        Raises:
            NotFoundError: No such model or version, or none of its versions is ready.
            UnavailableError: The version is not ready.
            InvalidArgumentError: The version is no positive integer.
        """
        if self.exiting:
            raise UnavailableError("Server exiting")
        return self._router.find(name, _parse_version(version) if version else -1)

    def ready_models(self) -> list[ServedModel]:
        """Return the ready models, each as `resolve` does without a version, by name."""
        return [served for _, served in sorted(self._router.models.newest.items())]

    def first_use(self, name: str) -> Awaitable[None] | None:
        """Return what loads a model that `resolve` does not know yet; None for any other.

        Awaited, it raises TritonError when the load fails.
        """
        return None if self.exiting else self._router.first_use(name)

    def is_unread(self, name: str) -> bool:
        """Whether a model is there to be loaded by its first use, and was not asked for yet."""
        model = self._router.table.models.get(self._router.models.key_of(name))
        return model is not None and model.is_on_demand and not model.versions

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a version is ready; an ensemble also needs the models of its steps.

        Raises:
            TritonError: As `resolve`.
        """
        served = self.resolve(name, version)
        if served.pool.is_restarting:
            number = served.version if version else -1
            raise lookup_error(self._router.table, served.key, number)
        if served.ensemble is not None:
            served.ensemble.check_ready()
        return True

    def says_ready(self, name: str, version: str = "") -> Awaitable[bool]:
        """Whether every instance of a ready model says so, of those whose model defines is_ready.

        Triton: core/src/backend_model.cc TritonModel::IsReady @73aad7c

        Raises:
            TritonError: As `resolve`, before anything is awaited.
        """
        return self._all_say_ready(self.resolve(name, version))

    async def _all_say_ready(self, model: ServedModel) -> bool:
        asked = [
            link
            for link in self._router.links_of(model.key, model.version)
            if link.endpoint.has_readiness and link.lane is not None
        ]
        if not asked:
            return True
        answers = await self._router.links.ask(asked, "health", _READINESS_TIMEOUT_S)
        return all(
            answer is not None and msgspec.msgpack.decode(answer, type=bool) for answer in answers
        )

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return Triton's metadata JSON of a model.

        Raises:
            TritonError: As `resolve`.
        """
        served = self.resolve(name, version)
        if version:
            versions = [served.version_text]
        else:
            versions = [
                str(entry.version)
                for entry in self._router.table.models[served.key].versions
                if entry.state is ModelReadyState.READY
            ]
        config = served.config
        return {
            "name": served.name,
            "versions": versions,
            "platform": config.platform or config.backend,
            "inputs": [_tensor_metadata(config, each) for each in config.input],
            "outputs": [_tensor_metadata(config, each) for each in config.output],
        }

    def model_config(self, name: str, version: str = "") -> ModelConfig:
        """Return a model's config.

        Raises:
            TritonError: As `resolve`.
        """
        return self.resolve(name, version).config

    def model_config_json(self, name: str, version: str = "") -> bytes:
        """Return a model's config as Triton renders it.

        Raises:
            TritonError: As `resolve`.
        """
        return to_json(self.model_config(name, version))

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics JSON of one model or, with an empty name, of all ready ones.

        Raises:
            InvalidArgumentError: The model or version is not available.
        """
        entries = self._statistics_entries(name, version)
        counted = await self._collector.collect(entries)
        return {
            "model_stats": [
                statistics_json(name_of(key), str(entry.version), statistics)
                for (key, entry), statistics in zip(entries, counted, strict=True)
            ]
        }

    def infer(
        self,
        model: ServedModel,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Headers = (),
        tenant: str = "",
        arrival: Arrival | None = None,
        stages: Sequence[Stage] = (),
    ) -> Inflight:
        """Check a request and send it on; everything that follows reaches the sink.

        Args:
            model: What `resolve` returned.
            request: The request.
            sink: Its sink.
            headers: Of HTTP, or metadata of gRPC; rollouts look at them.
            tenant: Of the caller, for rollouts and captures; empty for none.
            arrival: How it came; None unless `tracer` is on.
            stages: Those of the caller: access and tenants.

        Raises:
            InvalidArgumentError: The request does not fit the model; the sink hears nothing.
            TritonError: A stage refuses it.
        """
        on = self.stages.of(model, request, arrival, stages)
        if on:
            return Call(model, request, sink, headers, tenant, arrival).start(on, self._send)
        model.checker.check(request)
        return self._router.submit(model, request, sink)

    def _send(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Check a request and hand it to the router."""
        model.checker.check(request)
        regions = request.regions
        if regions is None:
            return self._router.submit(model, request, sink)
        if model.ensemble is not None:
            request.regions = None
            return self._router.submit(model, request, RegionSink(sink, regions, self._memory))
        leave_in_regions(request)
        return self._router.submit_local(model, request, sink)

    def forget_regions(self, sources: Collection[str]) -> None:
        """Drop what is kept of clients' shared memory but that of ``sources``."""
        self._memory.forget_others(sources)
        self.settings.release_others(sources)

    async def metrics_text(self) -> bytes:
        """Return this node's metrics in Prometheus text format.

        Scrapes that come while one is under way share the next.
        """
        return await self._page.new()

    async def recent_metrics_text(self) -> bytes:
        """Return this node's metrics as they were at most a second ago."""
        return await self._page.at_most_old(_PAGE_AGE_S)

    def _statistics_entries(self, name: str, version: str) -> list[Entry]:
        ready = self.page.ready_entries()
        if not name:
            return ready
        key = self._router.models.key_of(name)
        of_model = [row for row in ready if row[0] == key]
        if not of_model:
            raise InvalidArgumentError(f"requested model '{name}' is not available")
        if not version:
            return of_model
        number = _parse_version(version)
        chosen = [row for row in of_model if row[1].version == number]
        if not chosen:
            raise InvalidArgumentError(
                f"requested model version is not available for model '{name}'"
            )
        return chosen


def _parse_version(text: str) -> int:
    # std::stol skips leading blanks, takes a sign and ignores what follows the digits.
    leading = _LEADING_INTEGER.match(text)
    number = int(leading[1]) if leading else _INT64_MAX + 1
    if abs(number) > _INT64_MAX:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text}' (details: stol), "
            f"version should be an integral value > 0"
        )
    if number < 0:
        raise InvalidArgumentError(
            f"invalid model version specified '{text}' , version should be an integral value > 0"
        )
    return number


def _tensor_metadata(config: ModelConfig, tensor: ModelInput | ModelOutput) -> dict[str, Any]:
    batch = [-1] if config.max_batch_size > 0 else []
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": [*batch, *tensor.dims]}
