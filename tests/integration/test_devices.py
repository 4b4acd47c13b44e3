# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""GPUs and MIG devices on a real Ray, without a GPU: Ray is told of GPUs that are not there.

In place of NVML its processes import a module of the test's, which says that there are a whole GPU
and one with two MIG devices. So this shows who asks for what, and what an instance's process is
told; it shows nothing of CUDA.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from backends.api.errors import UnavailableError
from cluster.actors.controller_client import CONTROLLER_NAME, connect_controller
from cluster.controller.ownership import Owner
from cluster.options.parsing import parse_options
from cluster.server.start_controller import get_or_create_controller
from deployments.instance.spec import NAMESPACE
from tests.support.model_folders import write_folder
from tests.support.server import ROOT

STAND_IN = """
from tests.support import fake_nvml
from tests.support.fake_nvml import FakeGpu, FakeMig, NVMLError

_MIG = {0: FakeMig("MIG-one"), 3: FakeMig("MIG-two")}
_NVML = fake_nvml.FakeNvml(FakeGpu("GPU-whole"), FakeGpu("GPU-divided", mig=_MIG))
globals().update({n: getattr(_NVML, n) for n in dir(_NVML) if n.startswith("nvml")})
"""
MODEL = """
import json
import os
from pathlib import Path

VISIBLE = os.environ["CUDA_VISIBLE_DEVICES"]


class TritonPythonModel:
    def initialize(self, args):
        seen = {"visible": VISIBLE, "device_id": args["model_instance_device_id"]}
        name = f"{args['model_name']} {args['model_instance_name']}"
        folder = Path(os.environ["SEEN_BY_MODELS"])
        # Renamed when it is whole: tests read while models start.
        written = folder / f".{os.getpid()}"
        written.write_text(json.dumps(seen))
        written.rename(folder / f"{name} {os.getpid()}")

    def execute(self, requests):
        raise NotImplementedError
"""
CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
"""
MIG = 'parameters { key: "ray_resources" value { string_value: "{\\"mig_1g.10gb\\": 1}" } }'


def write_model(repository: Path, name: str, group: str) -> None:
    write_folder(repository, name, CONFIG + group, MODEL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("devices")
    (folder / "standin").mkdir()
    (folder / "standin/pynvml.py").write_text(STAND_IN)
    (folder / "seen").mkdir()
    write_model(folder / "models", "whole", "instance_group { kind: KIND_GPU gpus: [0] count: 2 }")
    write_model(folder / "models", "parts", f"instance_group {{ kind: KIND_GPU count: 2 }} {MIG}")
    write_model(folder / "models", "late", f"instance_group {{ kind: KIND_GPU gpus: [0] }} {MIG}")
    return folder


@pytest.fixture(scope="module")
def controller(folder: Path) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder / 'standin'}{os.pathsep}{ROOT}")
        patch.setenv("SEEN_BY_MODELS", str(folder / "seen"))
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=2,
            include_dashboard=False,
            log_to_driver=False,
            namespace=NAMESPACE,
            object_store_memory=100 * 1024 * 1024,
        )
        arguments = [
            f"--model-repository={folder / 'models'}",
            "--exit-timeout-secs=5",
            "--model-control-mode=explicit",
            "--load-model=whole",
        ]
        options = parse_options(arguments, {}, Path.read_text)
        handle = get_or_create_controller(options, Owner("test"))
        ray.get(handle.start.remote(), timeout=120)
        yield handle
        ray.shutdown()


def seen(folder: Path, model: str) -> list[tuple[str, str]]:
    """Return what each process of a model has seen: its devices, and its number among them."""
    rows = [json.loads(p.read_text()) for p in (folder / "seen").glob(f"{model} *")]
    return sorted((row["visible"], row["device_id"]) for row in rows)


async def reason_of(model: str) -> str:
    handle = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
    rows = await handle.status.remote()
    return next((row["reason"] for row in rows if row["name"] == model), "")


async def wait_for_reason(model: str, text: str) -> str:
    async with asyncio.timeout(60):
        while text not in (found := await reason_of(model)):  # noqa: ASYNC110 - only asked for
            await asyncio.sleep(0.1)
    return found


async def test_instances_see_the_device_that_they_have(controller: Any, folder: Path) -> None:
    assert seen(folder, "whole") == [("GPU-whole", "0")] * 2


async def test_mig_devices_are_leased_one_by_one_and_survive_crashes(
    controller: Any, folder: Path
) -> None:
    client = connect_controller()
    await client.load("parts", {})
    assert seen(folder, "parts") == [("MIG-one", "0"), ("MIG-two", "0")]
    with pytest.raises(UnavailableError, match=r"pending .*all taken \(parts/1#"):
        await client.load("late", {})
    await wait_for_reason("late", "waiting for a MIG device")

    # Ray starts a crashed instance again with the device it had.
    crashed = next(path for path in (folder / "seen").glob("parts *"))
    os.kill(int(crashed.name.rsplit(" ", 1)[1]), signal.SIGKILL)
    async with asyncio.timeout(60):
        while len(seen(folder, "parts")) < 3:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
    assert {visible for visible, _ in seen(folder, "parts")} == {"MIG-one", "MIG-two"}

    await client.unload("parts", unload_dependents=False)
    async with asyncio.timeout(60):
        while not seen(folder, "late"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
    ((visible, device_id),) = seen(folder, "late")
    assert visible in {"MIG-one", "MIG-two"}
    assert device_id == "0"


async def test_a_new_controller_knows_who_has_what(controller: Any, folder: Path) -> None:
    client = connect_controller()
    pid = await controller.__ray_call__.remote(lambda _: os.getpid())
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while True:
            try:
                await client.index(ready_only=False)
                break
            except Exception:
                await asyncio.sleep(0.2)
    loading = asyncio.create_task(client.load("parts", {}))
    reason = await wait_for_reason("parts", "waiting for a MIG device")
    assert "late/1#0" in reason
    await client.unload("late", unload_dependents=False)
    await loading
    async with asyncio.timeout(60):
        while await reason_of("parts"):  # noqa: ASYNC110 - only asked for
            await asyncio.sleep(0.1)
