# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is forked finds what it would find if it was started, and shares no randomness."""

import os
import resource
import sys
from pathlib import Path

import pytest

from cluster.fork_server.requests import PYTHON_VARIABLE, SOCKET_VARIABLE
from tests.support.forked_processes import IN_OTHERS, NAME, Asking, asking, ended
from tests.support.gates import takes_minutes

pytestmark = pytest.mark.slow

# What a start by itself finds too.
SAME = (
    "argv",
    "folder",
    "umask",
    "niceness",
    "limits",
    "cores",
    "inheritable",
    "name",
    "file",
    "main",
    "path",
    "executable",
    "child signal",
    "garbage",
    "thread",
)
PLAINLY = {"MALLOC_ARENA_MAX": "3"}


def test_a_forked_process_gets_what_its_client_has(each_client: Asking, tmp_path: Path) -> None:
    script = each_client.script()
    given = tmp_path / "given"
    given.touch()
    with given.open() as file:
        found = each_client.run(
            script,
            "a b",
            "",
            "\udcff",
            variables={"OF_CLIENT": "x=\udcfe", "HOME": None},
            before=[sys.executable, "-c", IN_OTHERS],
            cwd=tmp_path,
            stdin=file,
        )
    told = found.told
    assert (found.status, found.errors) == (0, "")
    assert told["parent"] == each_client.forks.pid
    assert told["argv"] == [script, "a b", "", "\udcff"]
    assert told["folder"] == str(tmp_path)
    assert told["descriptors"][0] == str(given)
    assert told["descriptors"][1] != told["descriptors"][2]
    assert told["umask"] == 0o027
    assert told["niceness"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert told["cores"] == [min(os.sched_getaffinity(0))]
    assert told["limits"]["RLIMIT_NOFILE"] == [200, 300]
    assert told["limits"]["RLIMIT_CORE"] == [0, 0]
    assert told["limits"]["RLIMIT_STACK"] == list(resource.getrlimit(resource.RLIMIT_STACK))
    assert (told["name"], told["file"], told["main"]) == ("__main__", script, True)
    assert told["path"] == str(Path(script).parent)
    assert told["group"]
    wanted = each_client.environment | {"OF_CLIENT": "x=\udcfe"}
    for each in ("HOME", SOCKET_VARIABLE, PYTHON_VARIABLE):
        wanted.pop(each, None)
    assert told["environment"] == wanted


def test_a_process_that_is_started_plainly_finds_the_same(each_client: Asking) -> None:
    script = each_client.script()
    forked = each_client.run(script, "--x").told
    plain = each_client.run(script, "--x", variables=PLAINLY).told
    assert forked["parent"] == each_client.forks.pid
    assert plain["parent"] == os.getpid()
    assert {each: forked[each] for each in SAME} == {each: plain[each] for each in SAME}
    # Neither has the client's own variables.
    assert {**forked["environment"], **PLAINLY} == plain["environment"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_ARENA_MAX", "1"),
        ("OMP_NUM_THREADS", "17"),
        ("LD_PRELOAD", "libm.so.6"),
        ("LC_ALL", "C"),
        ("PYTHONHASHSEED", "7"),
        ("PYTHONPATH", "/elsewhere"),
    ],
)
def test_a_variable_that_is_read_once_has_a_process_started_plainly(
    asked: Asking, name: str, value: str
) -> None:
    found = asked.run(asked.script(), variables={name: value})
    assert (found.status, found.errors) == (0, "")
    assert found.told["parent"] == os.getpid()
    assert found.told["environment"][name] == value
    assert asked.is_forked()


def test_a_file_of_another_name_is_run_by_python(asked: Asking, tmp_path: Path) -> None:
    other = tmp_path / "agent.py"
    other.write_text("import os; print(os.getppid())")
    assert asked.run(str(other)).output == f"{os.getpid()}\n"


def test_what_a_script_says_with_its_exit_reaches_nobody_and_its_errors_do(asked: Asking) -> None:
    """The client has ended by then; the raylet learns of an end by the worker's socket."""
    found = asked.run(asked.script("import sys\nprint('o')\nsys.stderr.write('e')\nsys.exit(3)"))
    assert (found.status, found.output, found.errors) == (0, "o\n", "e")
    found = asked.run(asked.script("raise ValueError('wrong')"))
    assert found.errors.endswith("ValueError: wrong\n")
    found = asked.run(asked.script("import atexit\natexit.register(print, 'at the end')"))
    assert found.output == "at the end\n"


def test_a_file_is_read_again_after_it_was_not_there(asked: Asking) -> None:
    script = asked.script()
    Path(script).unlink()
    found = asked.run(script)
    # Python itself says what is wrong.
    assert found.status == 2
    assert f"can't open file '{script}'" in found.errors
    Path(script).write_text("print('there')")
    assert asked.run(script).output == "there\n"


def test_a_file_that_is_no_program_is_python_s_to_refuse(asked: Asking) -> None:
    found = asked.run(asked.script("no program"))
    assert found.status == 1
    assert "SyntaxError" in found.errors
    assert asked.is_forked()


LISTING = """
import os
for each in os.listdir("/proc/self/fd"):
    try:
        found = os.readlink(f"/proc/self/fd/{each}")
    except FileNotFoundError:  # of the list itself
        continue
    if int(each) > 2:
        print(found)
"""


def test_no_descriptor_of_the_fork_server_is_left_to_a_forked_process(asked: Asking) -> None:
    script = asked.script(LISTING)
    others = set(asked.run(script).output.split())
    # A process that runs compiled keeps the folder of what it runs locked: so does this one.
    assert not {each for each in others if "/.compiled/" not in each}


DRAWING = """
import multiprocessing.process, random, secrets, uuid
import numpy
import ray

print(
    ray.ObjectRef.from_random().hex(),
    ray.ObjectRef.from_random().hex(),
    random.random().hex(),
    numpy.random.random().hex(),
    numpy.random.default_rng().random().hex(),
    uuid.uuid4(),
    secrets.token_hex(8),
    multiprocessing.process.current_process().authkey.hex(),
)
"""


def test_forked_processes_draw_nothing_that_another_has_drawn(asked: Asking) -> None:
    script = asked.script(DRAWING)
    rows = []
    for _ in range(20):
        batch = [asked.begun(script) for _ in range(10)]
        rows += [ended(each).output.split() for each in batch]
    columns = list(zip(*rows, strict=True))
    assert len(columns) == 8
    assert [len(set(each)) for each in columns] == [200] * 8
    # Two of one process are two as well.
    assert not set(columns[0]) & set(columns[1])


OF_TORCH = """
import sys
had = "torch" in sys.modules
import torch
print(torch.initial_seed(), torch.rand(1).item(), torch.seed(), had)
"""


@takes_minutes
def test_torch_draws_in_each_process_what_no_other_has_drawn(asked: Asking, tmp_path: Path) -> None:
    with asking(asked.client, tmp_path, preload="torch") as preloading:
        script = preloading.script(OF_TORCH)
        plain = preloading.run(script, variables=PLAINLY).output.split()
        rows = []
        for _ in range(20):
            batch = [preloading.begun(script) for _ in range(10)]
            rows += [ended(each).output.split() for each in batch]
    assert plain.pop() == "False"
    assert {row.pop() for row in rows} == {"True"}
    columns = list(zip(plain, *rows, strict=True))
    assert [len(set(each)) for each in columns] == [201] * 3


def test_the_name_is_the_one_by_which_ray_s_worker_is_known() -> None:
    from ray._private.workers import default_worker

    assert Path(default_worker.__file__).name == NAME
