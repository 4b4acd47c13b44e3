# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Event history: what has become of models and instances, seen in the changes of their records.

Pure, bounded and in memory: the process that runs the controller keeps the latest events, of one
model no more than a part, so that an instance that dies again and again leaves those of others.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from backends.api.model_identifier import name_of
from cluster.models.states import ModelRecord, VersionRecord
from deployments.contracts.routing_table import InstanceEndpoint, ModelReadyState

MOST_EVENTS: Final = 2000
MOST_OF_A_MODEL: Final = 200

_NS_PER_US: Final = 1000
_US_PER_S: Final = 1e6
_INSTANCE: Final = "instance "
# Of a message, which may be what a model has raised.
_MOST_CHARACTERS: Final = 1000
_NONE: Final = VersionRecord(0)


class EventKind(StrEnum):
    """What can be told of a model, a version or an instance."""

    CONTROLLER_STARTED = "controller started"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    UNLOADING = "unloading"
    UNLOADED = "unloaded"
    SCALED = "scaled"
    SCALED_TO_ZERO = "scaled to zero"
    WOKEN = "woken"
    INSTANCE_STARTED = "instance started"
    INSTANCE_LEAVING = "instance leaving"
    INSTANCE_LOST = "instance lost"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        version: Number; 0 for the whole model.
        instance: Its name; empty for the version.
        message: Cause, or amount; may be empty.
    """

    kind: EventKind
    version: int = 0
    instance: str = ""
    message: str = ""


class EventLog:
    """The latest events.

    Args:
        now_ns: Wall clock.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        # By id, oldest first: the model's key, and what is shown.
        self._rows: dict[int, tuple[str, dict[str, Any]]] = {}
        self._of_model: dict[str, deque[int]] = {}
        self._seen: dict[str, ModelRecord] = {}
        self._last = 0
        self._add("", Event(EventKind.CONTROLLER_STARTED))

    def note(self, record: ModelRecord) -> None:
        """Add what has happened since this model's record was last seen."""
        before = self._seen.get(record.name, ModelRecord(record.name))
        self._seen[record.name] = record
        for event in events(before, record):
            self._add(record.name, event)

    def since(self, last: int) -> list[dict[str, Any]]:
        """Return the events after one, oldest first, JSON: see `RepositoryControl.events`.

        Args:
            last: Id of that one; 0 for all there are.
        """
        return [row for number, (_, row) in self._rows.items() if number > last]

    def _add(self, key: str, event: Event) -> None:
        # Microseconds, so that those of a controller that was started again are greater.
        self._last = max(self._last + 1, self._now_ns() // _NS_PER_US)
        numbers = self._of_model.setdefault(key, deque())
        if len(numbers) == MOST_OF_A_MODEL:
            del self._rows[numbers.popleft()]
        elif len(self._rows) == MOST_EVENTS:
            self._drop_oldest()
            numbers = self._of_model.setdefault(key, numbers)
        numbers.append(self._last)
        row = {
            "id": self._last,
            "time": self._last / _US_PER_S,
            "event": event.kind.value,
            "model": name_of(key),
            "version": str(event.version or ""),
            "instance": event.instance,
            "message": _in_a_line(event.message),
        }
        self._rows[self._last] = key, row

    def _drop_oldest(self) -> None:
        key, _ = self._rows.pop(next(iter(self._rows)))
        numbers = self._of_model[key]
        numbers.popleft()
        if not numbers:
            del self._of_model[key]


def _in_a_line(text: str) -> str:
    line = " ".join(text[:_MOST_CHARACTERS].split())
    return f"{line} ..." if len(text) > _MOST_CHARACTERS else line


def events(before: ModelRecord, after: ModelRecord) -> Iterator[Event]:
    """Yield what has happened to a model between two of its records."""
    for number in sorted(after.versions):
        then, now = before.versions.get(number, _NONE), after.versions[number]
        if then is not now:
            yield from _of_version(then, now)
    if after.failure and after.failure != before.failure:
        # A version that has failed has said so.
        told = (each.reason for each in after.versions.values() if not each.is_ready)
        if not any(reason and reason in after.failure for reason in told):
            yield Event(EventKind.FAILED, message=after.failure)


def _of_version(then: VersionRecord, now: VersionRecord) -> Iterator[Event]:
    number = now.version
    if then.desired_instances != now.desired_instances and now.desired_instances is not None:
        was = "" if then.desired_instances is None else f"from {then.desired_instances} "
        yield Event(EventKind.SCALED, number, message=f"{was}to {now.desired_instances}")
    news = _news(then.reason, now.reason)
    # An unload says what becomes of them.
    if then.instances != now.instances and now.state is not ModelReadyState.UNLOADING:
        for event in _of_instances(then, now):
            # Once only: why it is lost is no news of one that waits.
            yield replace(event, message=news.pop(event.instance, ""))
    if then.is_dormant != now.is_dormant and now.is_ready:
        kind = EventKind.SCALED_TO_ZERO if now.is_dormant else EventKind.WOKEN
        yield Event(kind, number)
    if then.state is not now.state:
        yield Event(_kind(then, now), number, message="" if now.is_unloaded else now.reason)
    else:
        for name, text in news.items():
            yield Event(EventKind.WAITING, number, name, text)


def _kind(then: VersionRecord, now: VersionRecord) -> EventKind:
    if now.state is not ModelReadyState.UNAVAILABLE:
        return EventKind(now.state.value.lower())
    if now.is_unloaded:
        return EventKind.UNLOADED
    is_loading = then.state is ModelReadyState.LOADING
    return EventKind.FAILED if is_loading else EventKind.UNAVAILABLE


def _of_instances(then: VersionRecord, now: VersionRecord) -> Iterator[Event]:
    before, after = _incarnations(then.instances), _incarnations(now.instances)
    leaving = _incarnations(now.leaving)
    for name in before:
        if name not in after:
            kind = EventKind.INSTANCE_LEAVING if name in leaving else EventKind.INSTANCE_LOST
            yield Event(kind, now.version, name_of_instance(name))
    for name, incarnation in after.items():
        if before.get(name) != incarnation:
            yield Event(EventKind.INSTANCE_STARTED, now.version, name_of_instance(name))


def _incarnations(endpoints: Iterable[InstanceEndpoint]) -> dict[str, str]:
    return {each.name: each.incarnation for each in endpoints}


def name_of_instance(name: str) -> str:
    """Return an instance's name as people see it, without its generation and namespace."""
    model, slash, rest = name.partition("@")[0].rpartition("/")
    return f"{name_of(model)}{slash}{rest}"


def _news(then: str, now: str) -> dict[str, str]:
    """Return what instances say that they did not before, by name; "" for what names none.

    A version's reason is those of its instances, thousands perhaps, each of which begins with the
    instance's name.
    """
    if not now or then == now:
        return {}
    if not now.startswith(_INSTANCE):
        return {"": now}
    known = set(_reasons(then))
    news = (reason.partition(" ") for reason in _reasons(now) if reason not in known)
    return {name_of_instance(name): text for name, _, text in news}


def _reasons(reason: str) -> list[str]:
    return reason.removeprefix(_INSTANCE).split(f"; {_INSTANCE}")
