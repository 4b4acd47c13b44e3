# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of models, who hears of a change, and how it is shown."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import ParameterValue
from cluster.models.override import Override, choose_override, read_override
from cluster.models.records import Records
from cluster.models.states import (
    DORMANT_REASON,
    ModelRecord,
    VersionRecord,
    index_rows,
    status_rows,
)
from deployments.contracts.routing_table import (
    UNLOADED_REASON,
    InstanceEndpoint,
    ModelReadyState,
)

READY, UNAVAILABLE = ModelReadyState.READY, ModelReadyState.UNAVAILABLE
ENDPOINT = InstanceEndpoint("m/1#0", "i", "n", "\0u", ("127.0.0.1", 1))
SERVING = VersionRecord(
    1, READY, config=ModelConfig("m", backend="python"), instances=(ENDPOINT,), digest="d"
)


def kept(*records: ModelRecord) -> tuple[Records, list[str]]:
    heard: list[str] = []
    found = Records(heard.append)
    for each in records:
        found.note(each)
    return found, heard


def test_a_change_is_heard_of_by_the_models_key() -> None:
    records, heard = kept()
    records.put(ModelRecord("a"))
    records.put_version("b", SERVING)
    records.note(ModelRecord("c"))
    assert heard == ["a", "b"]
    assert records.of("b").versions == {1: SERVING}
    assert records.of("nobody") == ModelRecord("nobody")


def test_what_is_wished_is_heard_of_once() -> None:
    records, heard = kept(ModelRecord("m", {1: SERVING}))
    for count in (3, 3, None, None):
        records.desire("m", 1, count)
        assert records.of("m").versions[1].desired_instances == count
    records.desire("m", 2, 3)
    records.desire("nobody", 1, 3)
    assert heard == ["m", "m"]
    for traffic in (b"t", b"t", b""):
        records.direct("m", traffic)
        assert records.of("m").traffic == traffic
        assert records.of("m").versions == {1: replace(SERVING, desired_instances=None)}
    assert heard == ["m"] * 4


def test_versions_that_were_unloaded_before_a_restart_are_so_again() -> None:
    records, heard = kept(ModelRecord("m", {1: SERVING}))
    records.restore_unloaded("m", [1, 2])
    record = records.of("m")
    assert record.is_known
    assert record.versions[1] is SERVING
    assert record.versions[2].is_unloaded
    assert (record.unloaded_versions, record.ready_versions, heard) == ((2,), (1,), ["m"])
    assert not replace(record.versions[2], reason="it failed").is_unloaded
    assert not replace(record.versions[2], state=READY).is_unloaded
    assert not SERVING.is_unloaded
    assert records.reasons("m") == UNLOADED_REASON
    assert records.ready_keys("m") == ("m",)
    assert list(records.all_endpoints()) == [ENDPOINT]


def test_routers_learn_all_that_is_kept_of_a_version() -> None:
    of_version = replace(
        SERVING,
        load_duration_ns=5,
        desired_instances=2,
        leaving=(replace(ENDPOINT, name="m/1#1"),),
        past={"n": b"counts"},
        is_restarting=True,
        reason="one is starting",
    )
    record = ModelRecord("m", {1: of_version}, {"O": ("cat",)}, traffic=b"t", waits_for="room")
    model = record.routing_model()
    (version,) = model.versions
    assert (model.name, model.traffic, model.waits_for) == ("m", b"t", "room")
    for name in VersionRecord.__dataclass_fields__:
        assert getattr(version, name) == getattr(of_version, name), name
    assert version.labels == {"O": ("cat",)}


def test_a_model_that_has_failed_before_its_first_use_is_unavailable_in_the_index() -> None:
    def row(record: ModelRecord) -> dict[str, str]:
        (found,) = index_rows({"m": record}, ["m"], (), ready_only=False)
        return found

    unread = ModelRecord("m", is_on_demand=True)
    assert row(unread) == {"name": "m", "state": "READY", "reason": DORMANT_REASON}
    assert row(replace(unread, failure="no config")) == {
        "name": "m",
        "state": "UNAVAILABLE",
        "reason": "no config",
    }


def test_the_table_of_a_server_has_a_row_for_each_version() -> None:
    failed = VersionRecord(2, UNAVAILABLE, "it does not load", ModelConfig("b", platform="onnx"))
    rows = status_rows(
        {
            "b": ModelRecord("b", {2: failed, 1: SERVING}, failure="polled in vain"),
            "a": ModelRecord("a", failure="no config"),
            "c": ModelRecord("c", is_on_demand=True),
            "d": ModelRecord("d", {1: VersionRecord(1, UNAVAILABLE)}, failure="gone"),
        }
    )
    names = ("name", "version", "backend", "instances", "state", "reason")
    assert [tuple(each[name] for name in names) for each in rows] == [
        ("a", "", "", "0", "UNAVAILABLE", "no config"),
        ("b", "1", "python", "1", "READY", ""),
        ("b", "2", "onnx", "0", "UNAVAILABLE", "it does not load"),
        ("c", "", "", "0", "READY", DORMANT_REASON),
        ("d", "1", "", "0", "UNAVAILABLE", "gone"),
    ]
    assert all(each.keys() == set(names) for each in rows)


def test_a_load_takes_a_config_and_files() -> None:
    assert read_override("m", {"config": "{}", "file:1/model": b"x"}) == Override(
        "{}", {"file:1/model": b"x"}
    )
    assert read_override("m", {}) == Override()
    with pytest.raises(InternalError, match="failed to load ''"):
        read_override("", {})


@pytest.mark.parametrize(
    "parameters", [{"config": b"{}"}, {"file:1/model": "x"}, {"files": b"x"}, {"confi": "{}"}]
)
def test_what_a_load_does_not_know_is_refused(
    parameters: Mapping[str, ParameterValue | bytes],
) -> None:
    (name,) = parameters
    with pytest.raises(InvalidArgumentError, match=f"unrecognized load parameter '{name}'"):
        read_override("m", parameters)


def test_a_given_config_holds_until_the_directory_changes_and_files_for_one_load() -> None:
    given, none = Override("{}"), Override()
    with_files = Override("{}", {"file:1/model": b"x"})
    first = choose_override(given, none, lambda: "d1")
    assert first == Override("{}", directory_digest="d1")
    assert choose_override(none, first, lambda: "d1") is first
    assert choose_override(none, first, lambda: "d2") is none
    assert choose_override(none, with_files, lambda: "") is none
    assert choose_override(with_files, first, lambda: "d1") is with_files
    assert choose_override(first, none, lambda: "d2") is first
