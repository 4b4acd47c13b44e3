# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What must not be imported before a fork is found out in another process, and is said."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.fork_server.trials import opens_gpu
from tests.support.server import ROOT

THREAD = """
import threading
threading.Thread(target=threading.Event().wait, name="another", daemon=True).start()
"""
MODULES = {
    "harmless": "",
    "threaded": THREAD,
    # A thread that Python knows nothing of, as those of libraries in C.
    "hidden": "import _thread; _thread.start_new_thread(__import__('time').sleep, (100,))",
    "crashing": "import os; os.abort()",
    "failing": "raise RuntimeError('not here')",
    "leaving": "raise SystemExit",
    "drawing": "import ray; ray.ObjectRef.from_random()",
}
SAID = {
    "harmless": "",
    "threaded": "threads run after it",
    "hidden": "threads run after it",
    "crashing": "the process that imports it crashes",
    "failing": "RuntimeError: not here",
    "leaving": "SystemExit: ",
    "drawing": "forked processes would draw the same identifiers",
    "no_such_module": "no_such_module: No module named 'no_such_module'",
}
# What a trial says of each module, once it has ended.
TRIALS = """
import json, select, sys
from cluster.fork_server import trials
said = {}
for name in sys.argv[1:]:
    trial = trials.begun_trial([name])
    select.select([trial], [], [])
    said[name] = trials.ended_trial(trial)
print(json.dumps([said, sorted({*said} & {*sys.modules})]))
"""
# Imports what may be imported, within a time.
PRELOADING = """
import json, sys
from cluster.fork_server import imported, trials
imported.prepared(imported.RAY)
modules = trials.MoreImports()
modules.wanted(sys.argv[2:])
modules.finish(float(sys.argv[1]))
print(json.dumps([each for each in sys.argv[2:] if each in sys.modules]))
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(modules: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{modules}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_a_trial_tells_modules_that_may_be_imported_from_those_that_may_not(modules: Path) -> None:
    said, there = json.loads(run(modules, TRIALS, *SAID).stdout)
    assert said == SAID
    # None of them has been imported where others are forked.
    assert there == []


@pytest.mark.slow
def test_modules_that_may_be_are_imported_and_of_others_it_is_said_why_not(modules: Path) -> None:
    names = ("threaded", "harmless", "no_such_module", "crashing", "harmless")
    done = run(modules, PRELOADING, "90", *names)
    assert json.loads(done.stdout) == ["harmless", "harmless"]
    said = [each for each in done.stderr.splitlines() if each.startswith("fork server: ")]
    assert said == [
        f"fork server: each process imports {each} itself: {SAID[each]}"
        for each in ("threaded", "no_such_module", "crashing")
    ]


@pytest.mark.slow
def test_modules_that_take_too_long_are_not_waited_for(modules: Path) -> None:
    (modules / "slow.py").write_text("import time; time.sleep(1000)")
    assert json.loads(run(modules, PRELOADING, "0.1", "slow", "harmless").stdout) == []


@pytest.mark.parametrize(
    ("target", "is_one"),
    [
        ("/dev/nvidiactl", True),
        ("/dev/nvidia0", True),
        ("/dev/kfd", True),
        ("/dev/null", False),
        ("socket:[1]", False),
    ],
)
def test_a_process_that_has_a_gpu_open_is_told(tmp_path: Path, target: str, is_one: bool) -> None:
    (tmp_path / "0").symlink_to("/dev/null")
    assert not opens_gpu(tmp_path)
    (tmp_path / "1").symlink_to(target)
    assert opens_gpu(tmp_path) is is_one
    assert not opens_gpu()
