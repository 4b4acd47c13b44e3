# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sample model, as a kubelet puts a ConfigMap into a folder; the path of a newcomer."""

import re
import subprocess
import sys
from pathlib import Path

import k8s_render as render
import pytest
import yaml

from tests.support.server import ROOT

COMPONENT = render.KUSTOMIZE / "components/repository-configmap"


def mount_config_map(folder: Path) -> None:
    """Lay the sample out with the links of a kubelet's atomic writer."""
    volume = yaml.safe_load((COMPONENT / "volume.yaml").read_text())
    items = volume["template"]["spec"]["volumes"][0]["configMap"]["items"]
    for item in items:
        path = folder / "..2026_11_23" / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((COMPONENT / item["key"]).read_text())
    (folder / "..data").symlink_to("..2026_11_23")
    for name in {item["path"].partition("/")[0] for item in items}:
        (folder / name).symlink_to(f"..data/{name}")


def test_sample_in_a_config_map_is_a_repository(tmp_path: Path) -> None:
    mount_config_map(tmp_path)
    command = [sys.executable, "-m", "cluster", "check", "--strict", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 models load" in done.stdout


def test_newcomer_needs_six_commands_at_most() -> None:
    text = (ROOT / "docs/kubernetes.md").read_text()
    block = re.search(r"## Install: from an empty cluster.*?```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    commands = block[1].strip().splitlines()
    assert len(commands) <= 6
    folder = next(line.split()[-1] for line in commands if line.startswith("kubectl apply -k"))
    assert (ROOT / folder / "kustomization.yaml").is_file()


@pytest.mark.parametrize("name", ["kubernetes.md", "operations.md"])
def test_folders_and_files_that_the_guides_name_are_there(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    named = [
        found[0]
        for found in re.finditer(r"(?<!/)\bk8s/[\w./-]*[\w]", text)
        if "github.com" not in text[max(0, found.start() - 60) : found.start()]
    ]
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
