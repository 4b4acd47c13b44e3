# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fork cannot give a process is noticed; what it can give is no difference."""

import os
import resource
import subprocess
import sys

import pytest

from cluster.fork_server.differences import (
    LIMITS,
    are_within,
    difference,
    limits_of,
    place_of,
    read_once,
)

OWN = {b"OMP_NUM_THREADS": b"2", b"PATH": b"/bin", b"PYTHONPATH": b"/a"}
ANY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({b"PATH": b"/usr/bin", b"RAY_JOB_ID": b"1", b"TZ": b"UTC"}, ""),
        ({b"PYTHONUNBUFFERED": b"1"}, ""),
        ({b"OMP_NUM_THREADS": b"3"}, "OMP_NUM_THREADS"),
        ({b"MALLOC_ARENA_MAX": b"1", b"LD_PRELOAD": b"/a.so"}, "LD_PRELOAD MALLOC_ARENA_MAX"),
        ({b"PYTHONPATH": b""}, "PYTHONPATH"),
        ({b"RAY_SERVE_X": b"1"}, "RAY_SERVE_X"),
        ({b"MANTA_COMPILED": b"0"}, "MANTA_COMPILED"),
        # An empty one is as good as none.
        ({b"LC_ALL": b""}, ""),
        ({b"LC_\xff": b"1"}, "LC_\udcff"),
    ],
)
def test_only_variables_that_are_read_once_differ(changed, named: str) -> None:
    assert difference(OWN, OWN | changed) == named
    assert difference(OWN | changed, OWN) == named


def test_a_variable_that_is_read_once_and_is_missing_differs() -> None:
    assert difference(OWN, {}) == "OMP_NUM_THREADS PYTHONPATH"
    assert read_once(OWN).keys() == {b"OMP_NUM_THREADS", b"PYTHONPATH"}


@pytest.mark.parametrize(
    ("wanted", "own", "is_within"),
    [
        (10, 10, True),
        (10, 11, True),
        (11, 10, False),
        (10, ANY, True),
        (ANY, ANY, True),
        (ANY, 10, False),
        (0, 0, True),
    ],
)
def test_limits_may_be_lowered_and_not_raised(wanted: int, own: int, is_within: bool) -> None:
    assert are_within({7: (0, wanted)}, {7: (0, own)}) is is_within


def test_one_limit_that_is_higher_is_enough() -> None:
    own = dict.fromkeys(LIMITS, (5, 5))
    assert are_within(own, own)
    assert not are_within(own | {LIMITS[0]: (5, 6)}, own)


def test_limits_are_those_of_the_process() -> None:
    own = {each: resource.getrlimit(each) for each in LIMITS}
    assert limits_of(os.getpid()) == own
    assert resource.RLIMIT_NOFILE in own


def test_processes_of_one_control_group_and_namespace_are_in_one_place() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert place_of(process.pid) == place_of(os.getpid())
        process.communicate(b"\n")
    with pytest.raises(OSError, match=str(process.pid)):
        place_of(process.pid)


def test_another_namespace_is_another_place() -> None:
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", "echo there; read line"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"there\n":
            pytest.skip("this kernel lets nobody make a namespace")
        assert place_of(process.pid) != place_of(os.getpid())
        process.communicate(b"\n")
