# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the index says of versions whose files are being downloaded."""

from dataclasses import replace

from cluster.models.downloads import Downloads
from cluster.models.states import ModelRecord, VersionRecord, index_rows
from deployments.contracts.routing_table import ModelReadyState

LOADING = VersionRecord(1, ModelReadyState.LOADING)
READY = VersionRecord(1, ModelReadyState.READY)
MIB = 1 << 20


def reason(downloads: Downloads, record: VersionRecord = LOADING) -> str:
    records = {"m": ModelRecord("m", {record.version: record}, is_known=True)}
    (row,) = index_rows(downloads.shown_in(records), ["m"], (), ready_only=False)
    return row.get("reason", "")


def test_a_version_that_loads_says_how_far_its_files_are() -> None:
    downloads = Downloads()
    assert reason(downloads) == ""
    downloads.note("m", 1, "n1", 512 * MIB, 10240 * MIB)
    assert reason(downloads) == "downloading: 512 of 10240 MiB"
    downloads.note("m", 1, "n1", 1024 * MIB, 10240 * MIB)
    assert reason(downloads) == "downloading: 1024 of 10240 MiB"
    downloads.note("m", 1, "n1", 0, 0)
    assert reason(downloads) == ""


def test_of_several_nodes_the_slowest_counts() -> None:
    downloads = Downloads()
    for node, there in (("n1", 300), ("n2", 200), ("n3", 400)):
        downloads.note("m", 1, node, there * MIB, 1000 * MIB)
    assert reason(downloads) == "downloading: 200 of 1000 MiB"
    downloads.note("m", 1, "n2", 0, 0)
    assert reason(downloads) == "downloading: 300 of 1000 MiB"


def test_what_instances_wait_for_is_said_too() -> None:
    downloads = Downloads()
    downloads.note("m", 1, "n1", 0, MIB)
    waiting = replace(LOADING, reason="instance m/1#1@1 is waiting for room")
    assert reason(downloads, waiting) == (
        "instance m/1#1@1 is waiting for room; downloading: 0 of 1 MiB"
    )


def test_a_version_that_serves_says_nothing_and_is_forgotten() -> None:
    downloads = Downloads()
    downloads.note("m", 1, "n1", 0, MIB)
    downloads.note("gone", 3, "n1", 0, MIB)
    assert reason(downloads, READY) == ""
    # As one whose process was killed, and which is loaded again.
    assert reason(downloads) == ""


def test_versions_have_reasons_of_their_own() -> None:
    downloads = Downloads()
    downloads.note("m", 1, "n1", MIB, 2 * MIB)
    assert reason(downloads, VersionRecord(2, ModelReadyState.LOADING)) == ""


def test_a_node_that_is_done_twice_is_done() -> None:
    downloads = Downloads()
    downloads.note("m", 1, "n1", 0, 0)
    downloads.note("m", 1, "n2", MIB, 2 * MIB)
    downloads.note("m", 1, "n1", 0, 0)
    assert reason(downloads) == "downloading: 1 of 2 MiB"
