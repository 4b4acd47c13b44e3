# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from cluster.models.states import (
    TRANSITIONS,
    LifecycleEvent,
    ModelRecord,
    VersionRecord,
    index_rows,
    next_state,
    versions_failed,
)
from deployments.contracts.routing_table import InstanceEndpoint, ModelReadyState
from tests.support.examples import examples

LEGAL = {
    ("UNKNOWN", "LOAD"): "LOADING",
    ("LOADING", "LOADED"): "READY",
    ("LOADING", "LOAD_FAILED"): "UNAVAILABLE",
    ("LOADING", "UNLOAD"): "UNLOADING",
    ("READY", "RELOADED"): "READY",
    ("READY", "RESTED"): "READY",
    ("READY", "WOKEN"): "READY",
    ("READY", "INSTANCES_LOST"): "UNAVAILABLE",
    ("READY", "UNLOAD"): "UNLOADING",
    ("UNLOADING", "LOAD"): "LOADING",
    ("UNLOADING", "UNLOADED"): "UNAVAILABLE",
    ("UNAVAILABLE", "LOAD"): "LOADING",
    ("UNAVAILABLE", "RELOADED"): "READY",
    ("UNAVAILABLE", "RECOVERED"): "READY",
    ("UNAVAILABLE", "UNLOAD"): "UNLOADING",
}
ENDPOINT = InstanceEndpoint("m/1#0", "i", "n", "\0u", ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("state", "event"), list(itertools.product(ModelReadyState, LifecycleEvent))
)
def test_each_pair_of_state_and_event_moves_as_listed_or_raises(
    state: ModelReadyState, event: LifecycleEvent
) -> None:
    expected = LEGAL.get((state.value, event.value))
    if expected is None:
        with pytest.raises(KeyError):
            next_state(state, event)
    else:
        assert next_state(state, event).value == expected


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(ModelReadyState)


@given(st.lists(st.sampled_from(LifecycleEvent), max_size=30))
@settings(max_examples=examples(50))
def test_a_record_keeps_its_version_through_any_legal_history(events: list[LifecycleEvent]) -> None:
    record = VersionRecord(7)
    for event in events:
        if event in TRANSITIONS[record.state]:
            record = record.after(event, "why")
            assert (record.version, record.reason) == (7, "why")
            assert record.is_ready == (record.state is ModelReadyState.READY)


def test_an_illegal_event_leaves_the_record_as_it_was() -> None:
    record = VersionRecord(1)
    with pytest.raises(KeyError):
        record.after(LifecycleEvent.LOADED)
    assert record.state is ModelReadyState.UNKNOWN


def ready(version: int) -> VersionRecord:
    record = VersionRecord(version).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
    return replace(record.serving(ModelConfig("m"), 5, "d"), instances=(ENDPOINT,))


def test_routers_see_versions_in_ascending_order_with_their_endpoints() -> None:
    record = ModelRecord("m", labels={"OUT": ("cat",)})
    model = record.with_version(ready(3)).with_version(ready(1)).routing_model()
    assert [version.version for version in model.versions] == [1, 3]
    assert model.versions[0].instances == (ENDPOINT,)
    assert model.versions[0].labels == {"OUT": ("cat",)}
    assert model.versions[0].load_duration_ns == 5


def test_routers_are_told_of_a_version_that_has_lost_its_instances_until_it_is_back() -> None:
    told = []
    record = VersionRecord(1).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
    for event in (LifecycleEvent.INSTANCES_LOST, LifecycleEvent.RECOVERED):
        record = replace(record.after(event), reason="it died")
        (version,) = ModelRecord("m", {1: record}).routing_model().versions
        told.append(version.is_restarting)
    assert told == [True, False]


def test_only_ready_versions_count_as_ready() -> None:
    loading = VersionRecord(2).after(LifecycleEvent.LOAD)
    assert ModelRecord("m").with_version(ready(1)).with_version(loading).ready_versions == (1,)


def test_the_index_lists_names_versions_states_and_reasons() -> None:
    unloaded = VersionRecord(1, ModelReadyState.UNAVAILABLE, "unloaded")
    records = {
        "up": ModelRecord("up", is_known=True).with_version(ready(1)),
        "down": ModelRecord("down", is_known=True).with_version(unloaded),
        "unreadable": ModelRecord("unreadable", failure="bad config"),
        "empty": ModelRecord("empty", is_known=True, failure="no version"),
        "from_files": ModelRecord("from_files", is_known=True).with_version(ready(1)),
    }
    names = ["up", "down", "unreadable", "empty", "never", "twice"]
    assert index_rows(records, names, ["twice"], ready_only=False) == [
        {"name": "down", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
        {"name": "never"},
        {
            "name": "twice",
            "state": "UNAVAILABLE",
            "reason": "model appears in two or more repositories",
        },
        {"name": "unreadable", "state": "UNAVAILABLE", "reason": "bad config"},
        {"name": "up", "version": "1", "state": "READY"},
    ]
    assert index_rows(records, names, ["twice"], ready_only=True) == [
        {"name": "up", "version": "1", "state": "READY"}
    ]


def test_a_failed_load_names_each_version_and_its_cause() -> None:
    error = versions_failed("m", {2: InternalError("two"), 1: InternalError("one")})
    assert error.message == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: one;"
        "version 2 is at UNAVAILABLE state: Internal: two;\n"
    )
