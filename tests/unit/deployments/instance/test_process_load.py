# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a process says of its memory and its use."""

from pathlib import Path

from deployments.instance.process_load import Activity, load_of, private_bytes

ACTIVITY = Activity(
    pending_count=3, executing_for_ns=0, quiet_for_ns=0, decision_count=9, execution_count=7
)
STATUS = """Name:\tpython
VmRSS:\t   90000 kB
RssAnon:\t   50000 kB
RssFile:\t   39990 kB
RssShmem:\t      10 kB
"""


def test_memory_mapped_from_files_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    assert private_bytes(tmp_path / "status") == 50_010 * 1024


def test_where_the_kernel_does_not_tell_it_is_nothing(tmp_path: Path) -> None:
    assert private_bytes(tmp_path / "status") == 0


def test_the_load_has_the_executors_counts_and_this_process_memory() -> None:
    load = load_of(ACTIVITY)
    assert (load.execution_count, load.pending_count) == (7, 3)
    assert 0 < load.private_bytes < load.usable_bytes
