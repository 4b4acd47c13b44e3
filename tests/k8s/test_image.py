# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU image, built from Debian's archive and run as a restricted pod would be.

It takes minutes and root: only with MANTA_TESTS=all, or with MANTA_K8S_IMAGE naming the root
file system of an image that `k8s/images/build_local.sh` has built.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.k8s.test_sample import mount_config_map
from tests.support.gates import is_all
from tests.support.server import ROOT

_WANTED = os.environ.get("MANTA_K8S_IMAGE", "1" if is_all() else "")
_TOOLS = ("mmdebstrap", "buildah", "bwrap")
_LACKS = [tool for tool in _TOOLS if shutil.which(tool) is None] + ["root"] * bool(os.geteuid())
_DRAIN_S = 60

pytestmark = [
    pytest.mark.skipif(not _WANTED, reason="minutes; make test-all runs it"),
    pytest.mark.skipif(bool(_LACKS), reason=f"an image needs {_LACKS}"),
    pytest.mark.timeout(1200),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root file system."""
    if _WANTED != "1":
        return Path(_WANTED)
    folder = tmp_path_factory.mktemp("image") / "root"
    subprocess.run([str(ROOT / "k8s/images/build_local.sh"), str(folder)], check=True)
    return folder


@pytest.fixture
def server(image: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Manta with a read-only root, uid 10001, nothing writable but /tmp and /dev/shm."""
    models = tmp_path / "models"
    models.mkdir()
    mount_config_map(models)
    # pytest's folders are for their owner only.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    command = [
        *("bwrap", "--ro-bind", str(image), "/", "--tmpfs", "/tmp", "--tmpfs", "/run"),
        *("--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc"),
        *("--ro-bind", str(models), "/tmp/models", "--unshare-user", "--unshare-pid"),
        *("--unshare-ipc", "--uid", "10001", "--gid", "10001", "--clearenv"),
        *("--setenv", "PATH", "/opt/venv/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"),
        *("--setenv", "USER", "manta", "--as-pid-1", "--die-with-parent"),
        *("tini", "--", "manta", "serve", "--model-repository=/tmp/models"),
        *("--http-address=127.0.0.1", "--grpc-address=127.0.0.1"),
        *("--http-port=0", "--grpc-port=0", "--metrics-port=0"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("MANTA_READY"):
            return str(json.loads(line.partition(" ")[2])["http"])
    raise AssertionError("it ended before it was ready")


def _infer(address: str) -> dict[str, object]:
    tensor = {"datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    body = {"inputs": [{"name": name, **tensor} for name in ("INPUT0", "INPUT1")]}
    request = urllib.request.Request(
        f"http://{address}/v2/models/add_sub/infer", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request) as answer:
        return dict(json.loads(answer.read()))


def test_image_serves_and_drains_as_a_restricted_pod(server: subprocess.Popen[str]) -> None:
    address = _address(server)
    outputs = _infer(address)["outputs"]
    assert isinstance(outputs, list)
    assert outputs[0]["data"] == [2, 4, 6, 8]
    first = next(
        each
        for each in psutil.Process(server.pid).children(recursive=True)
        if each.name() == "tini"
    )
    first.send_signal(signal.SIGTERM)
    assert server.wait(_DRAIN_S) == 0


def test_image_tells_what_is_in_it(image: Path) -> None:
    told = json.loads((image / "opt/venv/share/sbom/pip-inspect.json").read_text())
    names = {each["metadata"]["name"].lower() for each in told["installed"]}
    assert {"manta-serve", "ray", "onnxruntime"} <= names
    rows = (image / "opt/venv/share/sbom/dpkg.txt").read_text().splitlines()
    assert {"bash", "tini", "python3"} <= {row.split("\t")[0] for row in rows}
    assert not (image / "usr/bin/gcc").exists()
