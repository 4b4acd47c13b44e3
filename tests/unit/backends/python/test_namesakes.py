# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model with modules that are called as ours, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.models import context_of, write_python_model
from tests.support.python_probe import CONFIG

HOST = """
import json, sys
sys.argv = [""]
import manta
from backends.api.backend import LoadContext
from backends.config.pbtxt import parse_pbtxt
from backends.registry import backend_for
from tests.support.recording import execute, recorded
import numpy as np

config, model_dir = sys.stdin.read().split("\\0")
context = LoadContext(parse_pbtxt(config, "config.pbtxt"), model_dir, 1, "probe_0_0")
instance = backend_for(context).load(context)
execute(instance, recorded({"INPUT0": np.zeros((1, 2), np.int32)}))
# Ours are there for us, also what nobody has imported yet.
import pickle
from deployments.instance.spec import InstanceSpec
from backends.api import datatypes
import cluster.release
assert pickle.loads(pickle.dumps(InstanceSpec)) is InstanceSpec
assert "DATATYPES" in vars(datatypes) and cluster.release.__file__
print(json.dumps(instance._model.seen, default=str))
"""


def seen(tmp_path: Path, files: dict[str, str], source: str) -> object:
    """Run a model with these files beside it; return its ``self.seen``."""
    context = context_of(tmp_path, CONFIG)
    for name, text in files.items():
        path = Path(context.version_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_python_model(
        context,
        source + "\n    def one(self):\n"
        "        tensor = pb_utils.Tensor('OUTPUT0', np.zeros((1, 2), np.int32))\n"
        "        return [pb_utils.InferenceResponse([tensor])]\n",
    )
    done = subprocess.run(
        [sys.executable, "-c", HOST],
        input=f"{CONFIG}\0{context.model_dir}",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


IN_EXECUTE = """
class TritonPythonModel:
    def execute(self, requests):
        {}
        self.seen = {}
        return self.one()
"""


OWN = {
    "cluster.py": "K = 1\n",
    "backends/__init__.py": "A = 2\n",
    "backends/api.py": "K = 3\n",
    "deployments/stages/first.py": "K = 4\n",
    "manta.py": "K = 5\n",
}
STATEMENTS = """
import importlib
import cluster
seen = [cluster.K]
from cluster import K
seen.append(K)
import backends.api
seen += [backends.A, backends.api.K]
from backends import api
seen.append(api.K)
seen.append(importlib.import_module("deployments.stages.first").K)
seen.append(importlib.import_module(".first", "deployments.stages").K)
import manta
seen.append(manta.K)
"""
FOUND = [1, 1, 2, 3, 3, 4, 4, 5]


def test_a_model_finds_its_own_modules_when_it_is_imported(tmp_path):
    assert seen(tmp_path, OWN, STATEMENTS + IN_EXECUTE.format("pass", "seen")) == FOUND


def test_a_model_finds_its_own_modules_in_execute(tmp_path):
    statements = STATEMENTS.strip().replace("\n", "\n        ")
    assert seen(tmp_path, OWN, IN_EXECUTE.format(statements, "seen")) == FOUND


def test_modules_of_the_model_find_each_other(tmp_path):
    files = {
        "helper.py": "import cluster\nfrom deployments.parts import SUM\n",
        "cluster.py": "from backends.api import ONE\nTWO = ONE + 1\n",
        "backends/__init__.py": "from .api import ONE\n",
        "backends/api.py": "ONE = 1\n",
        "deployments/__init__.py": "",
        "deployments/parts.py": "import backends\n"
        "from cluster import TWO\nSUM = TWO + backends.ONE\n",
    }
    source = IN_EXECUTE.format("import helper", "[helper.SUM, helper.cluster.TWO]")
    assert seen(tmp_path, files, source) == [3, 2]


def test_classes_of_such_modules_can_be_pickled(tmp_path):
    files = {
        "cluster.py": "class Point(list):\n    pass\n",
        "backends/__init__.py": "",
        "backends/shapes.py": "class Box(list):\n    pass\n",
        "backends/registry.py": "class Line(list):\n    pass\n",
    }
    source = "import pickle\n" + IN_EXECUTE.format(
        "from cluster import Point; from backends.shapes import Box; "
        "from backends.registry import Line",
        "[type(pickle.loads(pickle.dumps(each()))) is each for each in (Point, Box, Line)]",
    )
    assert seen(tmp_path, files, source) == [True, True, True]


def test_a_module_that_fails_is_told_and_leaves_ours_alone(tmp_path):
    source = """
class TritonPythonModel:
    def execute(self, requests):
        self.seen = []
        for _ in range(2):
            try:
                import cluster
            except ValueError as error:
                self.seen.append(str(error))
        return self.one()
"""
    assert seen(tmp_path, {"cluster.py": "raise ValueError('mine')\n"}, source) == ["mine"] * 2


def test_without_namesakes_imports_are_as_they_were(tmp_path):
    source = "import builtins\n" + IN_EXECUTE.format(
        "import utils", "[utils.K, type(builtins.__import__).__name__]"
    )
    assert seen(tmp_path, {"utils.py": "K = 8\n"}, source) == [8, "builtin_function_or_method"]
