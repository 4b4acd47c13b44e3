# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from backends.api.errors import InvalidArgumentError
from backends.environments.requirement_lines import read_requirements


@pytest.fixture
def requirements(tmp_path):
    return tmp_path / "requirements.txt"


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
def test_empty_requirements_ask_for_nothing(requirements, text):
    requirements.write_text(text)
    assert read_requirements("m", requirements) is None


def test_paths_beside_the_requirements_become_absolute(requirements):
    beside = requirements.parent
    (beside / "wheels").mkdir()
    (beside / "a.whl").touch()
    requirements.write_text(
        "--no-index  # offline\n--find-links=wheels\n-f  wheels\n./a.whl\n./missing.whl\n"
        "b @ https://host/b.whl#sha256=1\nc==1 \\\n  --hash=sha256:2\n"
    )
    lines = read_requirements("m", requirements).lines
    assert list(lines[:7]) == [
        "--no-index",
        f"--find-links={beside}/wheels",
        f"-f  {beside}/wheels",
        f"{beside}/a.whl",
        "./missing.whl",
        "b @ https://host/b.whl#sha256=1",
        "c==1    --hash=sha256:2",
    ]
    assert lines[7].startswith("#")


def test_another_file_of_the_same_name_is_another_requirement(requirements):
    wheel = requirements.parent / "a.whl"
    wheel.touch()
    requirements.write_text("./a.whl")
    before = read_requirements("m", requirements).key
    os.utime(wheel, ns=(1, 1))
    assert read_requirements("m", requirements).key != before


def test_requirements_are_bounded(requirements):
    requirements.write_text("#" * (1 << 20) + "\n")
    with pytest.raises(InvalidArgumentError, match="larger than"):
        read_requirements("m", requirements)


def test_a_changed_wheel_in_a_folder_is_another_requirement(requirements):
    wheels = requirements.parent / "wheels"
    wheels.mkdir()
    for name in "ba":
        (wheels / f"{name}.whl").touch()
        os.utime(wheels / f"{name}.whl", ns=(1, 1))
    requirements.write_text("-f wheels\na")
    assert read_requirements("m", requirements).lines[-1] == "# a.whl:1 b.whl:1"
    os.utime(wheels / "a.whl", ns=(2, 2))
    assert read_requirements("m", requirements).lines[-1] == "# a.whl:2 b.whl:1"
