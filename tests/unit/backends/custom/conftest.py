# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles small backend libraries, and runs scenarios with them, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.c_backends import compile_libraries
from tests.unit.backends.custom.scenarios import SCENARIOS

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="package")
def backend_directory(tmp_path_factory):
    """The backends of ``libraries``, compiled, as ``--backend-directory`` has them."""
    place = tmp_path_factory.mktemp("backends")
    compile_libraries(place)
    return place


@pytest.fixture(scope="package")
def played(backend_directory, tmp_path_factory):
    """Returns what a scenario came to; each is played once."""
    results = {}

    def play(name, *arguments):
        key = (name, *arguments)
        if key not in results:
            results[key] = _played(name, arguments, backend_directory, tmp_path_factory)
        done = results[key]
        if done.returncode == 0 and name in SCENARIOS:
            return json.loads(done.stdout)
        return done

    return play


def _played(name, arguments, backend_directory, tmp_path_factory):
    module = "tests.unit.backends.custom.scenarios"
    place = tmp_path_factory.mktemp(name)
    return subprocess.run(
        [sys.executable, "-m", module, str(backend_directory), str(place), name, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
