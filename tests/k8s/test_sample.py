# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sample model, as a kubelet puts a ConfigMap into a folder; the path of a newcomer."""

import re
import subprocess
import sys
from pathlib import Path

import k8s_render as render
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
    assert "add_sub" in done.stdout + done.stderr or "1 model" in done.stdout + done.stderr


def test_newcomer_needs_six_commands_at_most() -> None:
    text = (ROOT / "docs/kubernetes.md").read_text()
    block = re.search(r"## From an empty cluster.*?```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    commands = block[1].strip().splitlines()
    assert len(commands) <= 6
    folder = next(line.split()[-1] for line in commands if line.startswith("kubectl apply -k"))
    assert (ROOT / folder / "kustomization.yaml").is_file()


def test_folders_and_files_that_the_guides_name_are_there() -> None:
    for name in ("kubernetes.md", "operations.md"):
        text = (ROOT / "docs" / name).read_text()
        for path in re.findall(r"(?<!/)\bk8s/[\w./-]*[\w]", text):
            if "github.com" not in text[max(0, text.index(path) - 60) : text.index(path)]:
                assert (ROOT / path).exists(), path
