# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A ready version of a model, as codecs and router share it."""

from collections.abc import Callable

from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest
from deployments.admission.gate import AdmissionGate
from deployments.contracts.routing_table import ModelVersion
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.ensembles.ensemble import Ensemble
from deployments.metrics.counters import Snapshot
from deployments.response_cache.cached_model import CachedModel
from deployments.routing.model_rollout import ModelRollout
from deployments.routing.pool import LinkPool
from deployments.routing.request_check import RequestChecker


class ServedModel:
    """A ready version of a model, as codecs and router share it.

    Attributes:
        key: The model's key; see `backends.api.model_identifier`.
        name: Model name.
        version: Version number.
        version_text: The same as text, for responses.
        config: The complete config.
        labels: Class labels by output name.
        digest: Of what the version was loaded from; see
            `deployments.contracts.routing_table.ModelVersion`.
        checker: The model's compiled request checks.
        pool: Its instances.
        ensemble: What runs its requests here; None for a model with instances.
        cache: What answers requests before it; None unless its response cache is on.
        admission: What refuses clients' requests under overload; None where nothing does.
        rollout: Set where no version was named and the model has a rollout, which then chooses the
            version for each request; the rest is that of the version which is asked for config and
            metadata.
    """

    def __init__(
        self,
        key: str,
        entry: ModelVersion,
        config: ModelConfig,
        pool: LinkPool,
        ensemble: Ensemble | None = None,
    ) -> None:
        self.key = key
        self.name = name_of(key)
        self.version = entry.version
        self.version_text = str(entry.version)
        self.config = config
        self.labels = entry.labels
        self.digest = entry.digest
        self.checker = RequestChecker(config)
        self.pool = pool
        self._entry = entry
        self.ensemble = ensemble
        self.cache: CachedModel | None = None
        self.admission: AdmissionGate | None = None
        self.rollout: ModelRollout | None = None

    def facing(self, rollout: ModelRollout) -> "ServedModel":
        """Return what stands for the model where a rollout chooses the version."""
        faced = ServedModel(self.key, self._entry, self.config, self.pool, self.ensemble)
        faced.labels = self.labels
        faced.checker = self.checker
        faced.cache = self.cache
        faced.rollout = rollout
        return faced

    @property
    def lowest_priority(self) -> int:
        """The level of requests that wait for all others; 0 where the model has no levels."""
        batching = self.config.dynamic_batching
        return 0 if batching is None else batching.priority_levels

    def own_statistics(self) -> list[Snapshot]:
        """Return what was counted in this process: runs of an ensemble, lookups of a cache."""
        counters = []
        if self.ensemble is not None and self.ensemble.is_used:
            counters.append(self.ensemble.statistics())
        if self.cache is not None:
            counters.append(self.cache.snapshot())
        return counters


# Sends a checked request to a ready version; everything that follows reaches the sink.
Submit = Callable[[ServedModel, InferenceRequest, ResponseSink], Inflight]


# Returns the version of a model that answers a request.
Choose = Callable[[ServedModel, InferenceRequest], ServedModel]


class ServedStep:
    """A ready version as a step of an ensemble: a `deployments.ensembles.ensemble.StepModel`."""

    __slots__ = ("_choose", "_model", "_submit", "config", "name", "version")

    def __init__(self, model: ServedModel, submit: Submit, choose: Choose) -> None:
        self.name = model.name
        self.version = model.version
        self.config = model.config
        self._model = model
        self._choose = choose
        self._submit = submit

    @property
    def is_ready(self) -> bool:
        """See `deployments.ensembles.ensemble.StepModel`."""
        return not self._model.pool.is_restarting

    def start(self, request: InferenceRequest, sink: ResponseSink, /) -> Inflight:
        """Check a request and send it; everything that follows reaches the sink."""
        rollout = self._model.rollout
        model = self._choose(self._model, request)
        model.checker.check(request)
        request.model_version = model.version
        if rollout is not None:
            sink = rollout.counted(model.version, sink)
        return self._submit(model, request, sink)
