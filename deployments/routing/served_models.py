# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ready versions of a router's table: made, kept and replaced as the table changes."""

import time
from collections.abc import Callable, Collection, Iterable

from backends.api.errors import UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest
from backends.config.normalisation import change_requires_reload
from deployments.admission.admissions import Admissions
from deployments.contracts.routing_table import ModelReadyState, ModelVersion, RoutingTable
from deployments.ensembles.ensemble import Ensemble, FindStepModel
from deployments.ensembles.labels import labels_of
from deployments.response_cache.cached_model import CachedModel
from deployments.response_cache.store import CacheStore
from deployments.routing.model_rollout import ModelRollout
from deployments.routing.pool import LinkPool
from deployments.routing.served_model import ServedModel

_Key = tuple[str, int]


class ServedModels:
    """The ready versions, by the model's key and version.

    Args:
        pool_of: Returns the pool of a version, ready for its config.
        find_step: Finds the models of ensembles' steps.
        cache: Where answers are kept; None without a response cache.
        open_lanes: Opens the lanes to a version, where they open on demand.

    Attributes:
        newest: By key: the newest ready version; for a model with a rollout what stands for it.
        rollouts: By key: the rollouts of models; always the same mapping.
        keys: By name: the only key there is of it, where that is another than the name.
        admissions: The gates of the versions.
    """

    def __init__(
        self,
        pool_of: Callable[[_Key, ModelConfig], LinkPool],
        find_step: FindStepModel,
        cache: CacheStore | None,
        open_lanes: Callable[[ServedModel], None],
    ) -> None:
        self.newest: dict[str, ServedModel] = {}
        self.keys: dict[str, str] = {}
        self.rollouts: dict[str, ModelRollout] = {}
        self.admissions = Admissions(time.monotonic_ns)
        self._pool_of = pool_of
        self._find_step = find_step
        self._cache = cache
        self._open_lanes = open_lanes
        self._by_key: dict[_Key, tuple[ModelVersion, ServedModel]] = {}
        # Its versions, by key of a model.
        self._versions: dict[str, list[int]] = {}
        # The models that each ensemble is made of.
        self._ensembles: dict[_Key, set[str]] = {}

    def __contains__(self, key: _Key) -> bool:
        return key in self._by_key

    def get(self, name: str, version: int) -> ServedModel | None:
        """Return a ready version, or None."""
        found = self._by_key.get((name, version))
        return None if found is None else found[1]

    def all(self) -> list[ServedModel]:
        """Return all ready versions."""
        return [served for _, served in self._by_key.values()]

    def key_of(self, name: str) -> str:
        """Return the key that a name means; the name where it is none's, or several models'."""
        return self.keys.get(name, name)

    def choose(self, model: ServedModel, request: InferenceRequest) -> ServedModel:
        """Return the version of a model that answers a request.

        Where it has a rollout that is the one that the request is pinned to, else the one that the
        rollout chooses.

        Raises:
            UnavailableError: No version takes requests.
        """
        rollout = model.rollout
        if rollout is None:
            return model
        pinned = request.pins.get(model.key, 0) if request.pins else 0
        return self.version(model, pinned or rollout.version_for(request))

    def version(self, model: ServedModel, version: int) -> ServedModel:
        """Return a version of a model with a rollout, or the one that stands for the model.

        Raises:
            UnavailableError: Neither takes requests.
        """
        chosen = self.get(model.key, version) or self.get(model.key, model.version)
        if chosen is None:
            raise UnavailableError(
                f"model '{model.name}' has a rollout, but neither version {version} nor version"
                f" {model.version} takes requests; load one of them, or end the rollout"
            )
        self._open_lanes(chosen)
        return chosen

    def update(self, table: RoutingTable, changed: Collection[str]) -> None:
        """Follow the table in the models that have changed, and in the ensembles made of them.

        ``changed`` are the keys of those that are new, gone or other than before.
        """
        before = {key: self._by_key.pop(key) for key in self._keys_of(changed)}
        for key in before:
            self._ensembles.pop(key, None)
        for name in changed:
            self.newest.pop(name, None)
            self._versions.pop(name, None)
            model = table.models.get(name)
            for entry in model.versions if model else ():
                if entry.takes_requests and entry.config is not None:
                    key = (name, entry.version)
                    served = self._serve(name, entry, entry.config, before.get(key))
                    served.admission = self.admissions.gate_of(key, entry.config)
                    self._by_key[key] = (entry, served)
                    self._versions.setdefault(name, []).append(entry.version)
                    if served.ensemble is not None:
                        self._ensembles[key] = {x.model_key for x in served.config.ensemble_steps}
                    # Before one that has no instance at present an older one is preferred.
                    if name not in self.newest or entry.state is ModelReadyState.READY:
                        self.newest[name] = served
        self.admissions.keep(self._by_key)
        names = {name_of(key) for key in changed if key != name_of(key)}
        for name, keys in table.keys_by_name(names).items():
            if len(keys) == 1:
                self.keys[name] = keys[0]
            else:
                self.keys.pop(name, None)
        self._refresh(table, changed)
        self._follow_rollouts(table, changed)

    def _refresh(self, table: RoutingTable, changed: Collection[str]) -> None:
        """Have versions follow what they are made of."""
        for key in self._affected(changed):
            entry, served = self._by_key[key]
            if served.ensemble is not None:
                served.ensemble.unbind()
                served.labels = labels_of(table, entry)
            if served.cache is not None:
                served.cache.identity = table.identity(*key)

    def _follow_rollouts(self, table: RoutingTable, changed: Collection[str]) -> None:
        """Have the models that have changed be answered as their rollouts say."""
        for name in changed:
            model = table.models.get(name)
            if model is None or not model.traffic:
                self.rollouts.pop(name, None)
                continue
            usable = [x.version for x in model.versions if x.state is ModelReadyState.READY]
            rollout = self.rollouts.get(name)
            if rollout is None:
                self.rollouts[name] = ModelRollout(name, model.traffic, usable)
            else:
                rollout.follow(model.traffic, usable)
        for name, rollout in self.rollouts.items():
            # What stands for the model is where its newest version would be.
            served = self.get(name, rollout.stable) or self.newest.get(name)
            if served is not None:
                self.newest[name] = served.facing(rollout)

    def _affected(self, changed: Collection[str]) -> Iterable[_Key]:
        """Return the versions that have changed or are ensembles of what has, at any depth."""
        names, count = set(changed), 0
        while len(names) != count:
            count = len(names)
            for key, steps in self._ensembles.items():
                if not steps.isdisjoint(names):
                    names.add(key[0])
        return self._keys_of(names)

    def _keys_of(self, names: Iterable[str]) -> list[_Key]:
        return [(name, version) for name in names for version in self._versions.get(name, ())]

    def _serve(
        self,
        name: str,
        entry: ModelVersion,
        config: ModelConfig,
        before: tuple[ModelVersion, ServedModel] | None,
    ) -> ServedModel:
        if before is not None and _serves_alike(before[0], entry):
            return before[1]
        pool = self._pool_of((name, entry.version), config)
        if before is not None and not change_requires_reload(before[1].config, config):
            # What these have counted goes on counting.
            served = ServedModel(name, entry, config, pool, before[1].ensemble)
            served.cache = before[1].cache
            return served
        ensemble = None
        if config.has_ensemble_scheduling:
            ensemble = Ensemble(self._find_step, config, str(entry.version))
        served = ServedModel(name, entry, config, pool, ensemble)
        if self._cache is not None and config.response_cache:
            served.cache = CachedModel(self._cache, time.monotonic_ns)
        return served


def _serves_alike(one: ModelVersion, other: ModelVersion) -> bool:
    """Whether two states of a version differ in nothing but their instances."""
    return (one.config, one.labels, one.digest) == (other.config, other.labels, other.digest)
