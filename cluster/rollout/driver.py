# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Drives the rollouts: takes what users want, looks at the evidence, changes weights.

Theory of operation. A rollout is one value, changed by users and, once a second, by its own rules
(`cluster.rollout.steps`, pure). Whatever changes it is written to the controller's durable state
and given to the model's record, so that a table with the new weights goes to the routers, and is
logged. A controller that was restarted goes on with the value as it was written; what routers have
told since then begins a new period of the analysis.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from cluster.models.states import ModelRecord
from cluster.rollout.evidence import CustomCounters, Evidence, families_of
from cluster.rollout.readings import ArmReading
from cluster.rollout.state import State, created, decode, encode, status_of, traffic_of
from cluster.rollout.steps import Decisions, Observations, advanced, commanded
from deployments.contracts.control import RolloutAction
from deployments.rollouts.encoding import encode_traffic
from deployments.rollouts.reading import read_rollout
from deployments.rollouts.rendering import rollout_json, status_json
from deployments.rollouts.spec import Rollout

_log = logging.getLogger(__name__)

# What was counted and not decided is written so often.
_SAVE_S: Final = 10.0

# By action: the rules' word for it.
_COMMANDS: Final = {
    RolloutAction.PROMOTE: "promote",
    RolloutAction.PAUSE: "pause",
    RolloutAction.RESUME: "resume",
    RolloutAction.ROLLBACK: "roll_back",
}


@dataclass(slots=True, eq=False)
class Rollouts:
    """The rollouts of the server.

    Attributes:
        direct: Notes in one of them which version answers requests that name none.
        saved: By key: the rollouts, encoded; kept up to date here.
        changed: Called once ``saved`` is to be written.
        counters: Reads counters of the models' own.
        clock_s: Wall clock, seconds: it goes on while no controller runs.
    """

    records: Mapping[str, ModelRecord]
    direct: Callable[[str, bytes], None]
    saved: dict[str, bytes]
    changed: Callable[[], None]
    counters: CustomCounters
    clock_s: Callable[[], float] = time.time
    _evidence: Evidence = field(default_factory=Evidence)
    _states: dict[str, State] = field(default_factory=dict)
    _saved_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._saved_s = self.clock_s()
        for key, data in list(self.saved.items()):
            try:
                state = decode(data)
            except InternalError as error:
                _log.error("rollout of model '%s': %s", shown(key), error.message)
                continue
            self._evidence.begin(key)
            self._keep(key, state, ())

    def take(self, report: bytes) -> None:
        """Take what a router tells of the arms."""
        self._evidence.take(report)

    def ask(self, key: str, action: RolloutAction, document: Mapping[str, Any]) -> dict[str, Any]:
        """Do something about a rollout, at once; see `RolloutControl.rollout`.

        Raises:
            NotFoundError: There is none.
            InvalidArgumentError: It cannot be done.
        """
        if action is RolloutAction.SET:
            self._begin(key, read_rollout(document))
        elif action is RolloutAction.END:
            return self._end(key)
        elif action in _COMMANDS:
            outcome = commanded(self._state(key), _COMMANDS[action], self.clock_s())
            self._keep(key, *outcome)
            self.changed()
        return self.status(key)

    def _begin(self, key: str, rollout: Rollout) -> None:
        check_fits(rollout, self.records[key])
        now_s = self.clock_s()
        before = self._states.get(key)
        if before is not None and not before.phase.is_terminal:
            _tell(key, commanded(before, "supersede", now_s)[1])
        self._evidence.begin(key)
        # A rollout's users are others than those of the one before.
        state = created(rollout, f"{key}/{now_s:.6f}", now_s)
        # All versions can serve, so that it begins now.
        self._keep(key, *advanced(state, self._seen(key, state), now_s))
        self.changed()

    def _end(self, key: str) -> dict[str, Any]:
        state = self._state(key)
        if not state.phase.is_terminal:
            state, decisions = commanded(state, "abort", self.clock_s())
            _tell(key, decisions)
        told = self._told(key, state)
        del self._states[key], self.saved[key]
        self._evidence.forget(key)
        self.direct(key, b"")
        self.changed()
        return told

    def status(self, key: str) -> dict[str, Any]:
        """Return what is to be told of a rollout, JSON.

        Raises:
            NotFoundError: The model has none.
        """
        return self._told(key, self._state(key))

    def statuses(self) -> list[dict[str, Any]]:
        """Return the `status` of all rollouts."""
        return [self.status(key) for key in self._states]

    async def look(self) -> None:
        """Read what the rollouts count, and look at each once."""
        await self.counters.read(self._states.items())
        self.tick()

    def tick(self) -> None:
        """Look at each rollout once."""
        now_s = self.clock_s()
        is_decided = False
        for key, state in list(self._states.items()):
            if state.phase.is_terminal:
                continue
            after, decisions = advanced(state, self._seen(key, state), now_s)
            self._keep(key, after, decisions)
            is_decided = is_decided or bool(decisions)
        is_due = bool(self._states) and now_s - self._saved_s >= _SAVE_S
        if is_decided or is_due:
            self._saved_s = now_s
            self.changed()

    def _state(self, key: str) -> State:
        state = self._states.get(key)
        if state is None:
            raise NotFoundError(
                f"model '{shown(key)}' has no rollout; its newest version answers requests that"
                " name none"
            )
        return state

    def _keep(self, key: str, state: State, decisions: Decisions) -> None:
        self._states[key] = state
        self.saved[key] = encode(state)
        _tell(key, decisions)
        traffic = traffic_of(state)
        self.direct(key, b"" if traffic is None else encode_traffic(traffic))

    def _seen(self, key: str, state: State) -> Observations:
        record = self.records.get(key)
        ready = frozenset(record.ready_versions if record is not None else ())
        arms = state.rollout.arms
        if not state.has_candidate:
            return Observations(ready)
        stable, candidate = (self._reading(key, state, arm.version) for arm in arms[:2])
        return Observations(ready, stable, candidate)

    def _reading(self, key: str, state: State, version: int) -> ArmReading | None:
        custom = self.counters.of(key, version)
        if custom is None and families_of(state):
            # Taken for zero, all that was counted before the rollout would be the next period's.
            return None
        return self._evidence.reading(key, version, custom or {})

    def _told(self, key: str, state: State) -> dict[str, Any]:
        told = status_json(status_of(state))
        rows: list[dict[str, Any]] = [*told.pop("arms")]
        shadow = state.rollout.shadow
        if shadow is not None:
            rows.append({"name": "shadow", "version": shadow.version, "weight": 0})
        return {
            "model": key,
            "rollout": rollout_json(state.rollout),
            **told,
            "arms": [row | self._evidence.shown(key, row["version"]) for row in rows],
            "decision_count": state.revision - 1,
        }


def _tell(key: str, decisions: Decisions) -> None:
    for decision in decisions:
        weights = ", ".join(f"{name} {w / 100:g} %" for name, w in decision.weights.items())
        level = logging.WARNING if decision.action == "roll_back" else logging.INFO
        text = "rollout of model '%s': %s: %s; weights: %s"
        _log.log(level, text, shown(key), decision.action, decision.reason, weights)


def check_fits(rollout: Rollout, record: ModelRecord) -> None:
    """Check that all versions are there, and that clients may be answered by any of them.

    Raises:
        InvalidArgumentError: A version does not take requests, or versions differ in how they
            are asked.
    """
    model = shown(record.name)
    configs: dict[int, ModelConfig] = {}
    for version in rollout.versions:
        known = record.versions.get(version)
        if known is None or not known.is_ready or known.config is None:
            raise InvalidArgumentError(_not_loaded(model, version, record.ready_versions))
        configs[version] = known.config
    first = rollout.versions[0]
    for version, config in configs.items():
        for what, is_so, shall_be in (
            ("is decoupled", config.decoupled, configs[first].decoupled),
            (
                "batches sequences",
                config.sequence_batching is not None,
                configs[first].sequence_batching is not None,
            ),
        ):
            if is_so is not shall_be:
                one, other = (version, first) if is_so else (first, version)
                raise InvalidArgumentError(
                    f"version {one} of model '{model}' {what} and version {other} does not:"
                    " a request cannot be answered by either; give both versions the same config"
                )


def _not_loaded(model: str, version: int, ready: tuple[int, ...]) -> str:
    there = ", ".join(map(str, ready)) or "none"
    named = ", ".join(str(each) for each in sorted({*ready, version}))
    return (
        f"the rollout names version {version} of model '{model}', which takes no requests; ready"
        f" are: {there}. Put the version into the repository, have config.pbtxt's version_policy"
        f" load it, for example 'version_policy {{ specific {{ versions: [ {named} ] }} }}', load"
        " the model again and set the rollout then"
    )
