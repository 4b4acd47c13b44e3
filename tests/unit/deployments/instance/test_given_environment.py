# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Variables as the server was given them, and what Ray makes of them in a worker."""

import pytest

from deployments.instance.given_environment import given_environment, set_thread_count, take_back


@pytest.fixture
def proc(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("RAY_RAYLET_PID", "77")
    (tmp_path / "77").mkdir()
    (tmp_path / "77/environ").write_bytes(b"OMP_NUM_THREADS=3\0PATH=/bin\0EMPTY=\0A=b=c\0")
    return str(tmp_path)


def test_what_the_raylet_was_started_with_was_given(proc):
    assert given_environment({}, proc) == {
        "OMP_NUM_THREADS": "3",
        "PATH": "/bin",
        "EMPTY": "",
        "A": "b=c",
    }


def test_what_a_model_asks_for_wins(proc):
    given = given_environment({"env_vars": {"OMP_NUM_THREADS": "5"}}, proc)
    assert given is not None
    assert (given["OMP_NUM_THREADS"], given["PATH"]) == ("5", "/bin")


def test_without_a_raylet_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_RAYLET_PID", "78")
    assert given_environment({}, str(tmp_path)) is None
    monkeypatch.delenv("RAY_RAYLET_PID")
    assert given_environment({}) is None


@pytest.mark.parametrize(
    ("given", "count", "seen"),
    [
        ({"OMP_NUM_THREADS": "3"}, 8, "3"),
        ({"OMP_NUM_THREADS": ""}, 8, "8"),
        ({}, 8, "8"),
        (None, 0, "1"),
    ],
    ids=["given", "given empty", "not given", "not known"],
)
def test_a_thread_count_that_was_given_holds(given, count, seen):
    environment = {"OMP_NUM_THREADS": "2"}
    set_thread_count(count, given, environment)
    assert environment["OMP_NUM_THREADS"] == seen


def test_what_ray_has_emptied_is_as_it_was_given():
    environment = {
        "CUDA_VISIBLE_DEVICES": "",
        "NEURON_RT_VISIBLE_CORES": "",
        "EMPTY": "",
        "HIP_VISIBLE_DEVICES": "2",
        "PYTHONBREAKPOINT": "ray.util.rpdb.set_trace",
    }
    given = {"CUDA_VISIBLE_DEVICES": "1,0", "EMPTY": "", "HIP_VISIBLE_DEVICES": "0,1,2"}
    take_back(given, environment)
    assert environment == {
        "CUDA_VISIBLE_DEVICES": "1,0",
        "EMPTY": "",
        "HIP_VISIBLE_DEVICES": "2",
    }


def test_what_is_chosen_for_a_process_with_devices_stays():
    environment = {"CUDA_VISIBLE_DEVICES": "", "PYTHONBREAKPOINT": "ray.util.rpdb.set_trace"}
    take_back({"CUDA_VISIBLE_DEVICES": "1,0"}, environment, has_devices=True)
    assert environment == {"CUDA_VISIBLE_DEVICES": ""}


def test_a_debugger_that_was_given_is_kept():
    environment = {"PYTHONBREAKPOINT": "ray.util.rpdb.set_trace"}
    take_back({"PYTHONBREAKPOINT": "0"}, environment)
    assert environment == {"PYTHONBREAKPOINT": "0"}


def test_where_nothing_is_known_nothing_is_taken_back():
    environment = {"CUDA_VISIBLE_DEVICES": ""}
    take_back(None, environment)
    assert environment == {"CUDA_VISIBLE_DEVICES": ""}
