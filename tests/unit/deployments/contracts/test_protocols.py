# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What processes of two releases tell each other: versions, and the form of the records."""

import copy
import dataclasses
import json
import pickle
import zlib
from typing import Any

import msgspec
import pytest

from backends.api import evolving
from backends.api.evolving import evolves, restored
from deployments.contracts.protocols import PROTOCOLS, Versions, mismatches, told
from deployments.contracts.routing_table import Model, TableChanges, _unpickled_changes
from deployments.lane.handshake import SPOKEN
from tests.support.wire_schemas import MODULES, RECORDED, faults, schemas


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    name: str
    count: int = 1


class Counted(msgspec.Struct, array_like=True):
    name: str
    count: int = 1


evolves(Known, Counted)


def test_the_contracts_are_as_they_were_recorded() -> None:
    recorded, now = json.loads(RECORDED.read_text()), schemas()
    assert not faults(recorded, now), "raise the contract's version in protocols.py"
    assert recorded == now, "run 'python -m tests.support.wire_schemas' and commit what it writes"


def test_every_contract_has_records_and_every_record_a_contract() -> None:
    assert PROTOCOLS.keys() == MODULES.keys()


def test_lanes_speak_the_versions_of_the_table() -> None:
    assert PROTOCOLS["lanes"] is SPOKEN


def changed(**rows: list[str] | None) -> dict[str, Any]:
    """Return the recorded schemas with other records of instances."""
    now = copy.deepcopy(json.loads(RECORDED.read_text()))
    for name, lines in rows.items():
        if lines is None:
            del now["instances"]["records"][name]
        else:
            now["instances"]["records"][name] = lines
    return now


@pytest.mark.parametrize(
    ("row", "is_readable"),
    [("shade: str = default", True), ("shade: str", False)],
)
def test_a_new_field_needs_a_default_or_a_new_version(row: str, *, is_readable: bool) -> None:
    recorded = json.loads(RECORDED.read_text())
    now = changed(Gang=[*recorded["instances"]["records"]["Gang"], row])
    assert (not faults(recorded, now)) is is_readable
    now["instances"]["version"] += 1
    assert not faults(recorded, now)


def test_a_field_that_goes_or_changes_its_type_needs_a_new_version() -> None:
    recorded = json.loads(RECORDED.read_text())
    rows = recorded["instances"]["records"]["Gang"]
    assert faults(recorded, changed(Gang=rows[:-1]))
    assert faults(recorded, changed(Gang=[*rows[:-1], rows[-1] + " | None"]))
    assert faults(recorded, changed(Gang=None))


def test_a_field_of_an_array_is_added_at_the_end_only() -> None:
    recorded = json.loads(RECORDED.read_text())
    now = copy.deepcopy(recorded)
    ticket = now["lanes"]["records"]["Ticket"]
    ticket.append("shade: str = default")
    assert not faults(recorded, now)
    ticket.insert(1, ticket.pop())
    assert faults(recorded, now)


def test_two_releases_go_together_when_each_contract_has_a_common_version() -> None:
    ours = {"lanes": Versions(4, 6), "routing table": Versions(2, 2)}
    assert not mismatches({"lanes": (5, 7), "routing table": (1, 2), "later": (1, 1)}, ours)
    assert not mismatches({"lanes": (4, 4)}, ours)
    assert mismatches({"lanes": (7, 8), "routing table": (3, 3)}, ours) == (
        "lanes: it speaks version 7 to 8, this release 4 to 6",
        "routing table: it speaks version 3 to 3, this release 2 to 2",
    )


def test_a_release_goes_with_itself() -> None:
    assert not mismatches(told())


@pytest.mark.parametrize("kind", [Known, Counted])
def test_a_record_travels_by_the_names_of_its_fields(kind: type[Any]) -> None:
    record = kind("m", 3)
    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.copy(record) == record


@pytest.mark.parametrize("kind", [Known, Counted])
def test_what_a_reader_does_not_know_is_dropped_and_what_a_writer_did_not_has_its_default(
    kind: type[Any],
) -> None:
    assert restored(kind, ("shade", "name", "count"), ("blue", "m", 2)) == kind("m", 2)
    assert restored(kind, ("name",), ("m",)) == kind("m", 1)
    assert restored(kind, ("name", "shade"), ("m", "blue")) == kind("m", 1)


def test_a_record_without_a_field_that_has_no_default_is_refused() -> None:
    with pytest.raises(TypeError, match="name"):
        restored(Known, ("count",), (2,))


def test_every_record_that_is_pickled_between_releases_evolves() -> None:
    names = {kind.__name__ for kind in evolving._KNOWN}
    for contract in ("instances", "routing table", "controller"):
        for name, rows in schemas()[contract]["records"].items():
            is_pickled_map = rows[0] == "map" and name != "TableChanges"
            assert not is_pickled_map or name in names, f"{name} is not told to evolves()"


def test_changes_of_the_table_by_a_later_controller_are_read() -> None:
    changes = TableChanges(7, True, {"m": Model("m")}, frozenset(), True, False, None)
    _, (data,) = changes.__reduce__()
    assert _unpickled_changes(data) == changes
    values = pickle.loads(zlib.decompress(data)) | {"shade": "blue"}
    del values["reachable"]
    assert _unpickled_changes(zlib.compress(pickle.dumps(values))) == changes
