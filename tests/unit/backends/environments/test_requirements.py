# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of packages, installed by uv or pip from wheels made here."""

import importlib.util
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import InvalidArgumentError
from backends.environments.launcher import find_packages, layer_command
from backends.environments.requirement_lines import Requirements
from backends.environments.requirements import imported_otherwise, installed
from tests.support.wheels import make_wheel

ENTER = """
import os, sys, yaml{first}
from backends.api.errors import ImportedAlreadyError
from backends.environments.entry import enter_environment
from backends.environments.requirement_lines import Requirements
try:
    enter_environment(Requirements(sys.argv[1], tuple(sys.argv[2:])))
except ImportedAlreadyError as error:
    print("imported already:", error)
    sys.exit()
import json, yaml, {module}
print({module}.VALUE, {module}.__file__, json.__file__, os.environ["PATH"], sep="\\n")
"""
ROOT = Path(__file__).parents[4]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def wanting(wheels: Path, *lines: str) -> Requirements:
    return Requirements("/m/1/requirements.txt", ("--no-index", f"--find-links={wheels}", *lines))


def packages_of(layer: Path) -> set[str]:
    names = {each.name for each in find_packages(layer, "").iterdir()}
    return {name for name in names if name != "__pycache__"}


def entered(
    requirements: Requirements, cache: Path, *, module: str, first: str = "", before: str = ""
) -> list[str]:
    """Enter a layer in a process of its own and return what that prints."""
    command = [*shlex.split(before), "-c"] if before else [sys.executable, "-c"]
    script = ENTER.format(first=first, module=module)
    variables = {**os.environ, "MANTA_ENVIRONMENT_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, script, requirements.path, *requirements.lines],
        env=variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def test_requirements_are_installed_once(wheels: Path, cache: Path) -> None:
    wheel = make_wheel(wheels, "one_zq", "1.0", "")
    layer = installed(wanting(wheels, "one_zq"), cache)
    assert packages_of(layer) == {"one_zq.py", "one_zq-1.0.dist-info"}
    wheel.unlink()
    assert installed(wanting(wheels, "one_zq"), cache) == layer


@pytest.mark.slow
def test_two_versions_of_a_package_are_beside_each_other(wheels: Path, cache: Path) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(wheels, "one_zq", version, f"VALUE = {version}")
    layers = [installed(wanting(wheels, f"one_zq=={n}"), cache) for n in ("1.0", "2.0")]
    values = [(find_packages(each, "") / "one_zq.py").read_text() for each in layers]
    assert values == ["VALUE = 1.0", "VALUE = 2.0"]


def test_what_the_server_has_is_not_installed_again(wheels: Path, cache: Path) -> None:
    make_wheel(wheels, "PyYAML", "99.0", "")
    assert packages_of(installed(wanting(wheels, "pyyaml", "numpy"), cache)) == set()


def test_another_version_than_the_servers_is_in_the_layer(wheels: Path, cache: Path) -> None:
    make_wheel(wheels, "PyYAML", "0.1", "")
    layer = installed(wanting(wheels, "pyyaml==0.1"), cache)
    assert packages_of(layer) == {"PyYAML.py", "PyYAML-0.1.dist-info"}


@pytest.mark.parametrize("name", ["ray", "msgspec", "protobuf", "tritonclient", "setproctitle"])
def test_what_talks_to_the_server_is_the_servers(wheels: Path, cache: Path, name: str) -> None:
    make_wheel(wheels, name, "0.1", "")
    with pytest.raises(InvalidArgumentError, match=f"{name}==0.1"):
        installed(wanting(wheels, f"{name}==0.1"), cache)


def test_what_cannot_be_met_names_file_and_requirement_on_one_line(
    wheels: Path, cache: Path
) -> None:
    make_wheel(wheels, "one_zq", "1.0", "")
    with pytest.raises(InvalidArgumentError) as raised:
        installed(wanting(wheels, "one_zq==9.9"), cache)
    message = raised.value.message
    assert message.startswith("the requirements in '/m/1/requirements.txt' cannot be met: ")
    assert "one-zq==9.9" in message
    assert "\n" not in message
    assert not [each for each in (cache / "layers").iterdir() if each.is_dir()]


def test_an_index_that_is_not_reached_is_named_without_its_user(wheels: Path, cache: Path) -> None:
    index = "--index-url=http://who:token@127.0.0.1:9/simple"
    with pytest.raises(InvalidArgumentError) as raised:
        installed(wanting(wheels, index, "one_zq==9.9 @ http://who:token@127.0.0.1:9/a.whl"), cache)
    assert "token" not in raised.value.message


@pytest.mark.slow
def test_what_an_ended_process_left_half_made_is_not_used(wheels: Path, cache: Path) -> None:
    make_wheel(wheels, "one_zq", "1.0", "")
    requirements = wanting(wheels, "one_zq")
    layer = installed(requirements, cache)
    left = layer.with_name(f"{layer.name}.partial-x")
    layer.rename(left)
    (find_packages(left, "") / "one_zq.py").unlink()
    assert "one_zq.py" in packages_of(installed(requirements, cache))
    assert not left.exists()


def test_who_asks_meanwhile_waits_for_the_first(wheels: Path, cache: Path) -> None:
    make_wheel(wheels, "one_zq", "1.0", "")
    requirements = wanting(wheels, "one_zq")
    with ThreadPoolExecutor(4) as pool:
        layers = list(pool.map(lambda _: installed(requirements, cache), range(4)))
    assert len(set(layers)) == 1
    assert packages_of(layers[0]) == {"one_zq.py", "one_zq-1.0.dist-info"}


def test_scripts_of_a_layer_run_on_the_servers_python(wheels: Path, cache: Path) -> None:
    source = "def main():\n    import sys, yaml\n    print(sys.prefix)\n"
    make_wheel(wheels, "say_zq", "1.0", source, command="say-zq")
    layer = installed(wanting(wheels, "say_zq"), cache)
    assert [each.name for each in (layer / "bin").iterdir()] == ["say-zq"]
    variables = {**os.environ, "PYTHONPATH": str(find_packages(layer, ""))}
    done = subprocess.run(
        [layer / "bin/say-zq"], env=variables, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == sys.prefix


@pytest.mark.slow
def test_pip_installs_the_same_where_uv_is_not(
    wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *more: Any) -> object:
        return None if name == "uv" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    make_wheel(wheels, "PyYAML", "0.1", "")
    make_wheel(wheels, "say_zq", "1.0", "def main():\n    pass\n", command="say-zq")
    layer = installed(wanting(wheels, "pyyaml==0.1", "say_zq", "numpy"), cache)
    assert packages_of(layer) == {
        *("PyYAML.py", "PyYAML-0.1.dist-info", "say_zq.py", "say_zq-1.0.dist-info")
    }
    assert subprocess.run([layer / "bin/say-zq"], check=False).returncode == 1
    variables = {**os.environ, "PYTHONPATH": str(find_packages(layer, ""))}
    subprocess.run([layer / "bin/say-zq"], env=variables, check=True)


@pytest.mark.slow
def test_a_process_has_its_layer_before_the_servers_packages_and_after_the_library(
    wheels: Path, cache: Path
) -> None:
    for name in ("one_zq", "json"):
        make_wheel(wheels, name, "1.0", "VALUE = 1")
    requirements = wanting(wheels, "one_zq", "json")
    value, file, library, path = entered(requirements, cache, module="one_zq")
    assert (value, Path(file).name) == ("1", "one_zq.py")
    assert str(cache) not in library
    assert path.startswith(f"{cache}/layers/{requirements.key}")


@pytest.mark.slow
def test_a_process_that_has_imported_another_version_is_told_and_one_that_starts_with_it_has_it(
    wheels: Path, cache: Path
) -> None:
    make_wheel(wheels, "yaml", "1.0", "VALUE = 1")
    requirements = wanting(wheels, "yaml")
    assert (
        "imported already: '/m/1/requirements.txt' brings other versions of modules"
        in (entered(requirements, cache, module="yaml")[0])
    )
    command = layer_command(requirements.key)
    value, file, *_ = entered(requirements, cache, module="yaml", before=command)
    assert value == "1"
    assert file.startswith(str(cache))


def test_modules_of_a_namespace_are_told_apart(tmp_path: Path) -> None:
    for path in ("space/new.py", "space/old.py", "plain/__init__.py", "typing.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    imported: Any = {
        "space": type(sys)("space"),
        "space.old": type(sys)("space.old"),
        "space.other": type(sys)("space.other"),
        "plain": type(sys)("plain"),
        "plain.part": type(sys)("plain.part"),
        "typing": type(sys)("typing"),
    }
    for name, module in imported.items():
        if name != "space":
            module.__file__ = f"/elsewhere/{name.replace('.', '/')}.py"
    assert imported_otherwise(tmp_path, imported) == ["space.old", "plain"]
    imported["space.old"].__file__ = f"{tmp_path}/space/old.py"
    assert imported_otherwise(tmp_path, imported) == ["plain"]
