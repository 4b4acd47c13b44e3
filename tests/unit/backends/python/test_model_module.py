# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model's file as a module of its version's package."""

import multiprocessing
import pickle
import sys
from pathlib import Path

import pytest

from backends.api.errors import InternalError
from backends.registry import backend_for
from tests.support.models import context_of, load, write_python_model
from tests.support.python_probe import CONFIG, model_context

EXECUTE = "    def execute(self, requests):\n        return []\n"
MODEL = "class TritonPythonModel:\n"


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


def beside(context, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(context.version_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


PARTS = {
    "lexicon/__init__.py": "from .words import WORDS\n",
    "lexicon/words.py": "from ..limits import MOST\nWORDS = ['a'] * MOST\n",
    "limits.py": "MOST = 3\n",
}


@pytest.mark.parametrize("init", [None, "", "from .limits import MOST\n"])
def test_a_model_and_what_it_imports_import_relatively(tmp_path, init):
    source = "from .lexicon import WORDS\nfrom . import limits\n" + MODEL
    context = model_context(tmp_path, source + "    seen = (WORDS, limits.MOST)\n" + EXECUTE)
    beside(context, PARTS if init is None else {**PARTS, "__init__.py": init})
    assert load(context)._model.seen == (["a", "a", "a"], 3)


def test_a_package_of_the_same_name_elsewhere_is_not_taken_for_the_version(tmp_path):
    context = model_context(
        tmp_path, "from .limits import MOST\n" + MODEL + "    most = MOST\n" + EXECUTE
    )
    beside(context, PARTS)
    Path(tmp_path, "elsewhere/1").mkdir(parents=True)
    Path(tmp_path, "elsewhere/1/__init__.py").write_text("raise AssertionError")
    sys.path.insert(0, str(tmp_path / "elsewhere"))
    assert load(context)._model.most == 3


@pytest.mark.parametrize(
    ("version", "filename", "name"), [(1, "model.py", "1.model"), (12, "flow.py", "12.flow")]
)
def test_the_module_has_the_name_that_triton_gives_it(tmp_path, version, filename, name):
    config = CONFIG + f'default_model_filename: "{filename}"'
    context = context_of(tmp_path, config)
    if version != 1:
        Path(context.model_dir, str(version)).mkdir()
        context = type(context)(context.config, context.model_dir, version, "probe_0_0")
    write_python_model(context, MODEL + EXECUTE, filename=filename)
    model_class = type(load(context)._model)
    assert model_class.__module__ == name
    assert pickle.loads(pickle.dumps(model_class)) is model_class
    assert sys.modules[name].__package__ == str(version)
    assert getattr(sys.modules[str(version)], name.partition(".")[2]) is sys.modules[name]


COUNTS = """
import sys
sys.runs_zq = getattr(sys, "runs_zq", 0) + 1
class TritonPythonModel:
    completed = []
    @classmethod
    def auto_complete_config(cls, config):
        cls.completed.append(1)
        return config
    def execute(self, requests):
        return []
"""


def test_the_file_is_run_once_to_complete_the_config_and_to_load(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "runs_zq", 0, raising=False)
    context = model_context(tmp_path, COUNTS)
    backend = backend_for(context)
    backend.auto_complete(context)
    first = backend.load(context)._model
    assert (sys.runs_zq, first.completed) == (1, [1])
    # Another load begins anew.
    assert (backend.load(context)._model.completed, sys.runs_zq) == ([], 2)


def test_a_file_that_fails_is_no_module_afterwards(tmp_path):
    context = model_context(tmp_path, "raise ValueError('broken')")
    with pytest.raises(InternalError, match="ValueError: broken"):
        load(context)
    assert "1.model" not in sys.modules


def test_an_init_file_that_fails_is_told_with_its_line(tmp_path):
    context = model_context(tmp_path, MODEL + EXECUTE)
    beside(context, {"__init__.py": "\n1 / 0\n"})
    with pytest.raises(InternalError) as raised:
        load(context)
    init = Path(context.version_dir, "__init__.py")
    assert raised.value.message == (
        f"ZeroDivisionError: division by zero\n\nAt:\n  {init}(2): <module>\n"
    )


def test_functions_and_classes_of_a_model_reach_processes_that_it_spawns(tmp_path):
    source = (
        "class Scaled(Exception):\n    pass\n"
        "def scale(number):\n    return Scaled(number * 2), pb_utils.TRITONSERVER_MEMORY_CPU\n"
    )
    instance = load(model_context(tmp_path, source + MODEL + EXECUTE))
    module = sys.modules[type(instance._model).__module__]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        scaled, kind = pool.apply_async(module.scale, (4,)).get(60)
    assert (type(scaled), scaled.args) == (module.Scaled, (8,))
    assert kind.name == "TRITONSERVER_MEMORY_CPU"
