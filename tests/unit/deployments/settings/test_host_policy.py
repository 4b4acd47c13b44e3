# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from deployments.settings.host_policy import apply_host_policy, read_cores, resolved


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-0", {0}), ("2-5", {2, 3, 4, 5}), ("0-1,4-5,8-8", {0, 1, 4, 5, 8})],
)
def test_cores_are_ranges(text: str, cores: set[int]) -> None:
    assert read_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "3",
            "host policy setting 'cpu-cores' format is "
            "'<lower_cpu_core_id>-<upper_cpu_core_id>'. Got 3",
        ),
        ("0-1,", "Got "),
        ("a-1", "Parsing 'cpu-cores' value: Can't parse 'a' to integer"),
        ("1-", "Parsing 'cpu-cores' value: Can't parse '' to integer"),
        ("3-1", "not below it"),
        ("0-99999", "below 65536"),
        ("0-" + "9" * 30, "to integer"),
    ],
)
def test_other_cores_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        read_cores(text)
    assert complaint in refused.value.message


def test_a_policy_without_settings_binds_nothing() -> None:
    assert apply_host_policy({}) == frozenset()


def test_a_node_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Can't parse 'first' to integer"):
        apply_host_policy({"numa-node": "first"})


@pytest.mark.parametrize(
    ("policy", "numa_node", "expected"),
    [
        pytest.param({"numa-node": "1"}, 0, {"numa-node": "1"}, id="a number is a number"),
        pytest.param({}, 0, {}, id="no policy"),
        pytest.param({"numa-node": "auto"}, None, {}, id="no GPU"),
        pytest.param(
            {"numa-node": "auto", "cpu-cores": "5-6"},
            None,
            {"cpu-cores": "5-6"},
            id="no GPU, but cores",
        ),
        pytest.param(
            {"numa-node": "auto"}, 1, {"numa-node": "1", "cpu-cores": "MINE"}, id="the GPU's"
        ),
        pytest.param(
            {"numa-node": "auto", "cpu-cores": "5-6"},
            1,
            {"numa-node": "1", "cpu-cores": "5-6"},
            id="cores as they are said",
        ),
        pytest.param({"numa-node": "auto"}, 0, {"numa-node": "0"}, id="none of its cores is ours"),
        pytest.param({"numa-node": "auto"}, 7, {"numa-node": "7"}, id="cores are not told"),
    ],
)
def test_auto_is_the_numa_node_of_the_gpu(
    policy: dict[str, str], numa_node: int | None, expected: dict[str, str], tmp_path: Path
) -> None:
    mine = min(os.sched_getaffinity(0))
    for number, cpus in ((0, "60000-60003,60008"), (1, f"{mine},60000")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    wanted = {n: v.replace("MINE", f"{mine}-{mine}") for n, v in expected.items()}
    assert resolved(policy, numa_node, tmp_path) == wanted


def test_cores_that_are_not_there_fail_the_load() -> None:
    with pytest.raises(InternalError, match="Unable to set NUMA thread affinity: "):
        apply_host_policy({"cpu-cores": "65000-65001"})


_PROGRAM = """
import json, os, sys, threading
from deployments.settings.host_policy import apply_host_policy
started, done = threading.Event(), threading.Event()
seen = {}
def earlier():
    started.set(); done.wait(); seen["earlier"] = sorted(os.sched_getaffinity(0))
thread = threading.Thread(target=earlier); thread.start(); started.wait()
core = min(os.sched_getaffinity(0))
bound = apply_host_policy({"cpu-cores": f"{core}-{core}"})
done.set(); thread.join()
later = threading.Thread(target=lambda: seen.update(later=sorted(os.sched_getaffinity(0))))
later.start(); later.join()
json.dump({"core": core, "bound": sorted(bound), **seen}, sys.stdout)
"""


def test_threads_of_before_and_after_are_bound_to_the_cores() -> None:
    # A process of its own: bound once, this one would stay bound.
    output = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    seen = json.loads(output)
    core = seen["core"]
    assert seen == {"core": core, "bound": [core], "earlier": [core], "later": [core]}
