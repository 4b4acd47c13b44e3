# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The history of events that the controller keeps."""

import asyncio
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from cluster.controller import events as module
from cluster.controller.controller import ModelController
from cluster.controller.events import Event, EventKind, EventLog, events, name_of_instance
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from deployments.contracts.load_report import VersionLoad, encode_loads
from deployments.contracts.routing_table import UNLOADED_REASON, InstanceEndpoint
from tests.support.control_plane_fakes import DRAIN_S, LOAD_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model

LOADING = VersionRecord(1).after(LifecycleEvent.LOAD)
READY = LOADING.after(LifecycleEvent.LOADED)
UNLOADING = READY.after(LifecycleEvent.UNLOAD)


def endpoint(index: int, incarnation: str = "i") -> InstanceEndpoint:
    return InstanceEndpoint(f"m/1#{index}@1", incarnation, "node", "", ("", 0))


def happened(before: VersionRecord | None, after: VersionRecord) -> list[Event]:
    empty = ModelRecord("m")
    return list(
        events(empty if before is None else empty.with_version(before), empty.with_version(after))
    )


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (None, LOADING, [EventKind.LOADING]),
        (LOADING, READY, [EventKind.READY]),
        (READY, READY, []),
        (READY, UNLOADING, [EventKind.UNLOADING]),
        (
            UNLOADING,
            UNLOADING.after(LifecycleEvent.UNLOADED, UNLOADED_REASON),
            [EventKind.UNLOADED],
        ),
        (LOADING, LOADING.after(LifecycleEvent.LOAD_FAILED, "no file"), [EventKind.FAILED]),
        (READY, READY.after(LifecycleEvent.INSTANCES_LOST), [EventKind.UNAVAILABLE]),
        (READY, replace(READY, is_dormant=True), [EventKind.SCALED_TO_ZERO]),
        (replace(READY, is_dormant=True), READY, [EventKind.WOKEN]),
        (replace(READY, instances=(endpoint(0),)), UNLOADING, [EventKind.UNLOADING]),
    ],
)
def test_a_change_of_a_version_is_an_event(
    before: VersionRecord | None, after: VersionRecord, kinds: list[EventKind]
) -> None:
    found = happened(before, after)
    assert [event.kind for event in found] == kinds
    assert all(event.version == 1 for event in found)


def test_instances_that_come_and_go_are_events_with_their_causes() -> None:
    two = replace(READY, instances=(endpoint(0), endpoint(1)))
    one = replace(two, instances=(endpoint(0),), reason="instance m/1#1@1 died: signal 11; x")
    assert happened(two, one) == [
        Event(EventKind.INSTANCE_LOST, 1, "m/1#1", "died: signal 11; x"),
    ]
    again = replace(one, reason="instance m/1#1@1 is restarting: no; instance m/1#2@1 is loading")
    assert happened(one, again) == [
        Event(EventKind.WAITING, 1, "m/1#1", "is restarting: no"),
        Event(EventKind.WAITING, 1, "m/1#2", "is loading"),
    ]
    back = replace(two, instances=(endpoint(0), endpoint(1, "j")))
    assert happened(again, back) == [Event(EventKind.INSTANCE_STARTED, 1, "m/1#1")]
    assert happened(two, back) == [Event(EventKind.INSTANCE_STARTED, 1, "m/1#1")]
    leaving = replace(two, instances=(endpoint(1),), leaving=(endpoint(0),))
    assert happened(two, leaving) == [Event(EventKind.INSTANCE_LEAVING, 1, "m/1#0")]
    assert happened(leaving, replace(leaving, leaving=())) == []


def test_a_wanted_count_is_an_event_with_what_it_was() -> None:
    one, two = (replace(READY, desired_instances=each) for each in (1, 2))
    assert happened(READY, one) == [Event(EventKind.SCALED, 1, "", "to 1")]
    assert happened(one, two) == [Event(EventKind.SCALED, 1, "", "from 1 to 2")]
    assert happened(two, READY) == []


def test_a_failure_is_told_once_by_its_version_or_by_the_model() -> None:
    failed = ModelRecord("m").with_version(LOADING.after(LifecycleEvent.LOAD_FAILED, "no file"))
    whole = replace(failed, failure="version 1 is at UNAVAILABLE state: no file;")
    assert list(events(failed, whole)) == []
    unread = ModelRecord("m", failure="line 4: no such key")
    assert list(events(ModelRecord("m"), unread)) == [
        Event(EventKind.FAILED, message="line 4: no such key")
    ]
    # A reload that fails while the version before serves.
    serving = ModelRecord("m").with_version(READY)
    assert len(list(events(serving, replace(serving, failure="no file")))) == 1


def test_names_of_instances_are_those_that_people_see() -> None:
    assert name_of_instance("m/1#0@12") == "m/1#0"
    assert name_of_instance("/models/m/1#0@12") == "m/1#0"


def test_the_latest_events_are_kept_and_a_model_has_no_more_than_its_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 6)
    monkeypatch.setattr(module, "MOST_OF_A_MODEL", 3)
    ticks = count(1)
    log = EventLog(lambda: next(ticks) * 1_000_000)
    for name in "abcd":
        for number in range(5):
            log.note(ModelRecord(name, failure=f"{number}"))
        assert len(log.since(0)) <= 6
    rows = log.since(0)
    assert [(row["model"], row["message"]) for row in rows] == [
        (name, f"{number}") for name in "cd" for number in (2, 3, 4)
    ]
    assert [row["message"] for row in log.since(rows[-2]["id"])] == ["4"]
    # All that was dropped is forgotten.
    assert set(log._of_model) == {"c", "d"}


def test_a_message_is_a_line_of_bounded_length() -> None:
    log = EventLog(lambda: 0)
    log.note(ModelRecord("a", failure="no\n  file"))
    log.note(ModelRecord("a", failure="x" * 10**6))
    short, long = (row["message"] for row in log.since(1))
    assert short == "no file"
    assert long == "x" * 1000 + " ..."


def test_ids_grow_while_the_clock_stands_or_goes_back() -> None:
    times = iter([10_000_000, 10_000_000, 5_000_000])
    log = EventLog(lambda: next(times))
    log.note(ModelRecord("a", failure="x"))
    log.note(ModelRecord("a", failure="y"))
    assert [row["id"] for row in log.since(0)] == [10_000, 10_001, 10_002]
    assert log.since(0)[0]["event"] == "controller started"


async def _told(controller: ModelController) -> list[tuple[str, str]]:
    rows = await controller.events(0)
    return [(row["event"], row["instance"] or row["model"]) for row in rows]


@in_virtual_time
async def test_the_controller_tells_of_loads_deaths_and_unloads(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(folder, host, model_control_mode="explicit")
    await controller.start()
    await controller.load("a", {})
    (actor,) = host.instances.alive
    host.instances.crash(actor)
    await asyncio.sleep(LOAD_S + 10)
    last = (await controller.events(0))[-1]["id"]
    await controller.unload("a")
    await asyncio.sleep(DRAIN_S)
    found = await _told(controller)
    assert found[0] == ("controller started", "")
    assert found[1:4] == [("loading", "a"), ("instance started", "a/1#0"), ("ready", "a")]
    assert ("instance lost", "a/1#0") in found[4:]
    assert found.count(("instance started", "a/1#0")) == 2
    assert [row["event"] for row in await controller.events(last)] == ["unloading", "unloaded"]


@in_virtual_time
async def test_the_controller_tells_of_what_it_scales(folder: Path) -> None:
    write_model(folder, "a", max_instances="4", target_ongoing_requests="2", upscale_delay_s="2")
    controller = await controller_of(folder, FakeHost())
    await controller.start()
    for _ in range(8):
        await controller.report_load("r", encode_loads([VersionLoad("a", 1, 6.0, 6.0)]))
        await asyncio.sleep(1)
    rows = await controller.events(0)
    scaled = [row["message"] for row in rows if row["event"] == "scaled"]
    assert scaled[-1].endswith("to 3")
    assert sum(row["event"] == "instance started" for row in rows) == 3
