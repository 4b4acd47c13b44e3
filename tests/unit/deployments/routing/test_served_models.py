# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router keeps and what it makes anew when the table changes."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from backends.api.errors import InvalidArgumentError, NotFoundError, UnavailableError
from backends.api.model_config import EnsembleStep, ModelConfig, ModelInput, ModelOutput
from backends.api.model_identifier import name_of
from deployments.contracts.routing_table import (
    UNLOADED_REASON,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.routing.router import Router
from deployments.routing.served_model import ServedModel
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import CONFIG

READY = ModelReadyState.READY
UNAVAILABLE = ModelReadyState.UNAVAILABLE


def _version(name: str, **fields: object) -> ModelVersion:
    return ModelVersion(1, READY, config=replace(CONFIG, name=name), **fields)  # type: ignore[arg-type]


def _ensemble(name: str, *steps: str, maps: Mapping[str, str] | None = None) -> ModelVersion:
    config = ModelConfig(
        name,
        input=(ModelInput("A", "INT32", (2,)),),
        output=(ModelOutput("B", "INT32", (2,)),),
        has_ensemble_scheduling=True,
        ensemble_steps=tuple(
            EnsembleStep(step, -1, {"A": "A"}, maps or {"B": "B"}) for step in steps
        ),
    )
    return ModelVersion(1, READY, config=config)


class CountingRouter(Router):
    """Notes whom it is asked for."""

    found: list[str]

    def find(self, name: str, version: int = -1) -> ServedModel:
        self.found.append(name)
        return super().find(name, version)


class Tables:
    """A router, and tables of which each differs from the last in some models."""

    def __init__(self, **models: ModelVersion) -> None:
        self.router = CountingRouter("node", b"secret", SlabPool(1 << 20))
        self.router.found = []
        self._table = RoutingTable()
        self.change(**models)

    def change(self, *, has_namespaces: bool = False, **models: ModelVersion | None) -> None:
        kept = {**self._table.models}
        for name, entry in models.items():
            kept.pop(name, None)
            if entry is not None:
                kept[name] = Model(name, (entry,))
        self._table = replace(
            self._table,
            version=self._table.version + 1,
            models=kept,
            has_namespaces=has_namespaces or self._table.has_namespaces,
        )
        self.router.update(self._table)


async def test_labels_that_alone_have_changed_are_served() -> None:
    here = Tables(m=_version("m", labels={"B": ("old",)}, digest="1"))
    here.change(m=_version("m", labels={"B": ("new",)}, digest="2"))
    assert here.router.find("m").labels == {"B": ("new",)}


async def test_models_that_have_not_changed_are_kept() -> None:
    here = Tables(m=_version("m"), n=_version("n"))
    kept, replaced = here.router.find("n"), here.router.find("m")
    here.change(m=_version("m", digest="2"))
    assert here.router.find("n") is kept
    assert here.router.find("m") is not replaced
    here.change(n=None)
    assert here.router.models.get("n", 1) is None


async def test_only_ensembles_of_what_has_changed_look_their_models_up_again() -> None:
    here = Tables(
        m=_version("m"),
        n=_version("n"),
        inner=_ensemble("inner", "m"),
        outer=_ensemble("outer", "inner"),
        other=_ensemble("other", "n"),
    )
    names = ["inner", "outer", "other"]

    def looked_up() -> list[str]:
        ensembles = [here.router.find(name).ensemble for name in names]
        here.router.found.clear()
        for ensemble in ensembles:
            assert ensemble is not None
            ensemble.check_ready()
        return sorted(here.router.found)

    assert looked_up() == ["inner", "m", "n"]
    assert looked_up() == []
    here.change(n=_version("n", digest="2"))
    assert looked_up() == ["n"]
    here.change(m=_version("m", digest="2"))
    assert looked_up() == ["inner", "m"]


async def test_an_ensembles_output_has_the_labels_of_the_step_that_feeds_it() -> None:
    labels = {"B": ("cat", "dog")}
    here = Tables(
        m=_version("m", labels=labels),
        inner=_ensemble("inner", "m"),
        outer=_ensemble("outer", "inner"),
    )
    assert here.router.find("inner").labels == labels
    assert here.router.find("outer").labels == labels
    here.change(m=_version("m", labels={"B": ("bird",)}, digest="2"))
    assert here.router.find("outer").labels == {"B": ("bird",)}


async def test_an_ensembles_own_labels_come_before_those_of_its_steps() -> None:
    own = replace(_ensemble("e", "m"), labels={"B": ("own",)})
    here = Tables(m=_version("m", labels={"B": ("step",)}), e=own)
    assert here.router.find("e").labels == {"B": ("own",)}


async def test_labels_of_a_tensor_between_steps_are_not_the_ensembles() -> None:
    here = Tables(
        m=_version("m", labels={"B": ("x",)}), e=_ensemble("e", "m", maps={"B": "between"})
    )
    assert here.router.find("e").labels == {}


def _in_namespaces(*keys: str) -> Tables:
    here = Tables()
    here.change(has_namespaces=True, **{key: _version(name_of(key)) for key in keys})
    return here


async def test_a_name_means_the_only_model_of_it_in_any_namespace() -> None:
    here = _in_namespaces("/r/a/m", "/r/b/n")
    found = here.router.find("m")
    assert (found.key, found.name) == ("/r/a/m", "m")
    assert here.router.find("m", 1) is found
    assert here.router.models.key_of("m") == "/r/a/m"
    with pytest.raises(NotFoundError, match="'/r/a::m' version 2 is not found"):
        here.router.find("m", 2)


async def test_a_name_of_several_models_is_ambiguous_until_one_is_unloaded() -> None:
    here = _in_namespaces("/r/a/m", "/r/b/m")
    with pytest.raises(InvalidArgumentError, match="There are 2 identifiers of model 'm' in glob"):
        here.router.find("m")
    here.change(**{"/r/a/m": ModelVersion(1, ModelReadyState.UNLOADING)})
    assert here.router.find("m").key == "/r/b/m"
    here.change(**{"/r/a/m": ModelVersion(1, UNAVAILABLE, reason=UNLOADED_REASON)})
    assert here.router.find("m").key == "/r/b/m"
    here.change(**{"/r/a/m": ModelVersion(1, ModelReadyState.LOADING)})
    with pytest.raises(InvalidArgumentError, match="ambiguity"):
        here.router.find("m", 1)


async def test_an_ensemble_is_not_ready_while_all_instances_of_a_step_restart() -> None:
    here = Tables(m=_version("m"), e=_ensemble("e", "m"))
    ensemble = here.router.find("e").ensemble
    assert ensemble is not None
    ensemble.check_ready()
    here.change(m=replace(_version("m"), state=UNAVAILABLE, is_restarting=True))
    with pytest.raises(UnavailableError, match="'m' version 1 are being started again"):
        ensemble.check_ready()
    here.change(m=_version("m"))
    ensemble.check_ready()


async def test_a_name_whose_models_are_unloaded_has_no_identifier() -> None:
    here = Tables()
    here.change(
        has_namespaces=True, **{"/r/a/m": ModelVersion(1, UNAVAILABLE, reason=UNLOADED_REASON)}
    )
    with pytest.raises(NotFoundError, match="Identifier of model 'm' is not found in global map"):
        here.router.find("m")


async def test_an_unknown_name_is_an_invalid_argument_with_namespaces_only() -> None:
    with pytest.raises(InvalidArgumentError, match="Request for unknown model: 'n' is not found"):
        _in_namespaces("/r/a/m").router.find("n")
    with pytest.raises(NotFoundError, match="Request for unknown model: 'n' is not found"):
        Tables().router.find("n")


async def test_an_ensemble_runs_on_the_models_of_the_namespaces_its_steps_name() -> None:
    ensemble = _ensemble("e", "m")
    assert ensemble.config is not None
    steps = tuple(replace(s, model_namespace="/r/b") for s in ensemble.config.ensemble_steps)
    config = replace(ensemble.config, ensemble_steps=steps)
    here = Tables(**{"/r/a/e": replace(ensemble, config=config), "/r/a/m": _version("m")})
    here.change(has_namespaces=True, **{"/r/b/m": _version("m")})
    served = here.router.find("e")
    assert served.ensemble is not None
    served.ensemble.check_ready()
    assert here.router.found[-1] == "/r/b/m"
    here.change(**{"/r/b/m": None})
    with pytest.raises(InvalidArgumentError):
        served.ensemble.check_ready()


async def test_queues_of_models_of_one_name_have_names_of_their_own() -> None:
    here = _in_namespaces("/r/a/m", "/r/b/m")
    configs = [served.pool.config for served in here.router.models.all()]
    assert {config.name for config in configs if config} == {"/r/a/m", "/r/b/m"}
    assert {served.config.name for served in here.router.models.all()} == {"m"}
