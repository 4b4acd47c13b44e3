# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks one model: its directory, its config and its versions, but not its ensembles' edges."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import infer_backend, normalise_defaults
from backends.config.pbtxt import edit, parse_pbtxt
from cluster.commands.check.agents import (
    AgentsLeftOutError,
    CheckedAgents,
    StoredVersion,
    is_looked_at,
    unknown_agents,
)
from cluster.commands.check.defects import Defect, Severity
from cluster.commands.check.links import leaving_links
from cluster.commands.check.places import ModelPlaces, without_place
from cluster.commands.check.remedies import remedy_of
from cluster.commands.check.rules import Rules, VersionCheck
from cluster.models.states import no_version
from cluster.repository.contents import RepositoryModel
from cluster.repository.filesystem import reason_of
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a model.

    Attributes:
        defects: What is wrong, and what was not checked.
        configs: The config that would serve, by version; empty when it does not load, or is not
            checked.
        is_complete: Whether a load ends with the inputs and outputs of these configs.
    """

    name: str
    places: ModelPlaces
    defects: tuple[Defect, ...] = ()
    configs: dict[int, ModelConfig] = field(default_factory=dict)
    is_complete: bool = True

    @property
    def loads(self) -> bool:
        """Whether a load would meet no defect."""
        return all(defect.severity is not Severity.ERROR for defect in self.defects)

    @property
    def errors(self) -> tuple[str, ...]:
        """What a load would meet, a line each, with the place and what to do."""
        return tuple(str(each) for each in self.defects if each.severity is Severity.ERROR)

    @property
    def reason(self) -> str:
        """Why it does not load."""
        errors = (each.text for each in self.defects if each.severity is Severity.ERROR)
        return next(errors, "")

    @property
    def config(self) -> ModelConfig | None:
        """The config of its newest version."""
        return self.configs[max(self.configs)] if self.configs else None


def defect(places: ModelPlaces, text: str, severity: Severity = Severity.ERROR) -> Defect:
    """Return the defect that a text of a load tells of."""
    remedy = remedy_of(text)
    place = places.of(text, remedy.field)
    shown = " ".join(without_place(text).split())
    fix = remedy.fix if severity is Severity.ERROR else ""
    return Defect(place.file, place.line, place.column, severity, shown, fix)


class ModelCheck:
    """Checks the models of repositories."""

    def __init__(
        self,
        repository: ModelRepository,
        rules: Rules,
        config_name: str,
        roots: tuple[str, ...],
        agents: CheckedAgents,
        open_store: Callable[[str], Store] = open_store,
    ) -> None:
        self._repository = repository
        self._rules = rules
        self._config_name = config_name
        self._roots = roots
        self._agents = agents
        self._open_store = open_store

    def check(self, name: str, directory: str) -> Verdict:
        """Check a model, by its directory in the first repository that has it."""
        places = ModelPlaces(name, directory, self._config_name)
        try:
            name.encode()
            opened = self._repository.open_directory(name)
            filesystem = opened.place.filesystem
            places = ModelPlaces(name, directory, self._config_name, filesystem)
            model = self._repository.read_model(name, directory=opened)
        except AgentsLeftOutError:
            text = "not checked: what its repository agents make of the files"
            return Verdict(name, places, (defect(places, text, Severity.NOTE),), is_complete=False)
        except TritonError as error:
            cause = error.__cause__
            text = cause.message if isinstance(cause, TritonError) else error.message
            found = (*self._agents.take_refused(), *self._all_of(name, places, text))
            return Verdict(name, places, tuple(defect(places, each) for each in found))
        except UnicodeError:
            text = "the name of the model's directory is not UTF-8"
            return Verdict(name, places, (defect(places, text),))
        refused = self._agents.take_refused()
        try:
            return self._of_model(places, model, refused)
        except OSError as error:
            return Verdict(name, places, (defect(places, reason_of(error)),))
        finally:
            if model.prepared is not None:
                self._agents.release(model.prepared)

    def _of_model(self, places: ModelPlaces, model: RepositoryModel, refused: list[str]) -> Verdict:
        name, config = model.name, model.config
        defects = [defect(places, text, Severity.WARNING) for text in model.warnings]
        defects += self._links(places)
        defects += [defect(places, text) for text in (*refused, *unknown_agents(config))]
        if not model.versions:
            defects.append(defect(places, no_version(name).message))
        if config.has_ensemble_scheduling:
            defects += [defect(places, text) for text in self._rules.complaints(config)]
            configs = dict.fromkeys(model.versions, self._rules.completed(config))
            return Verdict(name, places, _once(defects), configs)
        configs, is_complete = {}, True
        for version in model.versions:
            defects += [defect(places, text) for text in self._of_agents(model, version)]
            found = self._of_version(model, version)
            configs[version] = found.config
            is_complete = is_complete and found.is_complete
            # A model of a store is looked at through a stand-in of its directory.
            told = [text.replace(model.model_dir, places.directory) for text in found.refused]
            defects += [defect(places, text) for text in told]
            defects += [
                defect(places, f"not checked: {text}", Severity.NOTE) for text in found.left_open
            ]
        return Verdict(name, places, _once(defects), configs, is_complete)

    def _of_agents(self, model: RepositoryModel, version: int) -> Iterator[str]:
        """Yield what agents say of a version in a store; its node would run them."""
        files = None if model.files is None else model.files[version]
        if files is None or not files.agents:
            return
        store = self._open_store(files.location)
        try:
            yield from StoredVersion(store, model.name, version, files).refused()
        except TritonError as error:
            yield error.message
        finally:
            store.close()

    def _of_version(self, model: RepositoryModel, version: int) -> VersionCheck:
        config, auto_complete = model.config, model.needs_auto_complete
        if model.files is not None:
            calls = model.files[version].agents
            if not is_looked_at(calls):
                names = ", ".join(call.name for call in calls)
                return self._rules.check_config(
                    config,
                    auto_complete=auto_complete,
                    left_open=f"what the repository agents {names} make of the files",
                )
        return self._rules.check_version(
            config,
            model.model_dir,
            version,
            auto_complete=auto_complete,
            has_contents=model.files is None,
        )

    def _links(self, places: ModelPlaces) -> Iterator[Defect]:
        for path, text in leaving_links(places.directory, self._roots):
            yield Defect(path, 1, 1, Severity.WARNING, text, "copy the file there")

    def _all_of(self, name: str, places: ModelPlaces, text: str) -> tuple[str, ...]:
        """Return all complaints about a config, if the one that a load met first is among them."""
        try:
            config = parse_pbtxt(places.text, places.config)
        except TritonError:
            return (text,)
        if not config.name:
            config = edit(config, lambda message: setattr(message, "name", name))
        try:
            config = infer_backend(config, {})
        except TritonError:
            return (text,)
        found = self._rules.complaints(normalise_defaults(config), tensors=bool(config.input))
        return found if text in found else (text,)


def _once(defects: list[Defect]) -> tuple[Defect, ...]:
    return tuple(dict.fromkeys(defects))
