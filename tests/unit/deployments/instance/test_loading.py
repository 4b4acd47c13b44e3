# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A backend instance from its recipe."""

import os
import subprocess
import sys

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import InstanceGroup
from backends.config.pbtxt import parse_pbtxt
from deployments.instance import loading
from deployments.instance.loading import load_instance
from deployments.instance.spec import DeviceAssignment, InstanceSpec

TENSORS = """
input [{ name: "IN" data_type: TYPE_FP32 dims: [2] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [2] }]
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def spec(text: str = TENSORS, **fields: object) -> InstanceSpec:
    config = parse_pbtxt(f'name: "m" backend: "identity" {text}', "m/config.pbtxt")
    defaults = {"config": config, "model_dir": "/nowhere/m", "auto_complete": False}
    return InstanceSpec(
        generation=1,
        version=1,
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0_0",
        **(defaults | fields),
    )


def test_the_backend_of_the_config_is_loaded():
    loaded = load_instance(spec(thread_count=3))
    assert loaded.instance.is_ready()
    assert loaded.config.name == "m"
    assert loaded.duration_ns > 0
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_a_config_to_complete_comes_back_normalised():
    batching = TENSORS + "max_batch_size: 4 dynamic_batching { }"
    loaded = load_instance(spec(batching, auto_complete=True))
    assert loaded.config.dynamic_batching is not None
    assert loaded.config.dynamic_batching.preferred_batch_size == (4,)


def test_a_completed_config_that_breaks_a_rule_is_refused():
    with pytest.raises(InvalidArgumentError):
        load_instance(spec("max_batch_size: -1" + TENSORS, auto_complete=True))


WARMUP = """
model_warmup [{ name: "once" batch_size: 1
    inputs { key: "IN" value { data_type: TYPE_FP32 dims: [2] zero_data: true } } }]
"""


@pytest.mark.parametrize("passive", [False, True])
def test_a_passive_instance_is_not_warmed_up(passive: bool):
    group = InstanceGroup("m_0", "KIND_CPU", 1, passive=passive)
    loaded = load_instance(spec(TENSORS + WARMUP, group=group))
    assert loaded.statistics.snapshot(0).execution_count == (0 if passive else 1)


def test_a_host_policy_that_the_system_refuses_fails_the_load():
    with pytest.raises(InternalError, match="Unable to set NUMA thread affinity"):
        load_instance(spec(host_policy={"cpu-cores": "65000-65001"}))


def test_an_unknown_backend_is_refused():
    config = parse_pbtxt(f'name: "m" backend: "nonsense" {TENSORS}', "m/config.pbtxt")
    unknown = InstanceSpec(
        1,
        1,
        "/nowhere/m",
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0_0",
        config=config,
        auto_complete=False,
    )
    with pytest.raises(InvalidArgumentError, match="unable to find backend library"):
        load_instance(unknown)


def test_a_framework_that_is_missing_names_its_extra(monkeypatch):
    for name in ("tensorrt", "tensorrt_lean"):
        monkeypatch.setitem(sys.modules, name, None)
    config = parse_pbtxt(f'name: "m" platform: "tensorrt_plan" {TENSORS}', "m/config.pbtxt")
    plan = InstanceSpec(
        1,
        1,
        "/nowhere/m",
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0_0",
        config=config,
        auto_complete=False,
        kind="GPU",
    )
    with pytest.raises(InvalidArgumentError) as raised:
        load_instance(plan)
    assert raised.value.message.endswith("pip install manta-serve[tensorrt]")


@pytest.mark.parametrize(
    ("fields", "visible"),
    [
        ({"num_gpus": 0.5}, ""),
        ({"resources": {"gpu_3": 0.5}}, "3"),
    ],
    ids=["reserved by Ray", "pinned"],
)
def test_a_gpu_instance_sees_its_own_gpu(fields, visible):
    load_instance(spec(kind="GPU", device_id=3, **fields))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize(
    ("of_ray", "parameters", "visible"),
    [
        ("0", "", "3"),
        ("0", 'parameters { key: "ray_num_gpus" value { string_value: "0.002" } }', "0"),
        ("MIG-1f", "", "MIG-1f"),
    ],
    ids=["by its index", "left to Ray", "MIG"],
)
def test_an_instance_that_shares_a_gpu_is_on_the_one_its_group_names(
    monkeypatch, of_ray, parameters, visible
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", of_ray)
    load_instance(spec(TENSORS + parameters, kind="GPU", device_id=3, num_gpus=0.002))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize("of_ray", ["", "0", "5"])
@pytest.mark.parametrize("uuid", ["GPU-3", "MIG-3"])
def test_an_instance_sees_the_device_it_was_assigned_and_no_other(monkeypatch, of_ray, uuid):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", of_ray)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    device = DeviceAssignment("node", uuid, 3, is_counted=uuid.startswith("GPU"))
    seen = spec(kind="GPU", device_id=3, num_gpus=0.002, device=device)
    assert loading._claim_device(seen) == 0
    assert os.environ["CUDA_VISIBLE_DEVICES"] == uuid
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


NOTES_WHAT_IT_SEES = """
import os

SEEN = os.environ["CUDA_VISIBLE_DEVICES"]

class TritonPythonModel:
    def initialize(self, args):
        self.seen = SEEN
        self.index = int(args["model_instance_device_id"])

    def execute(self, requests):
        raise NotImplementedError
"""


def test_the_device_is_chosen_before_the_model_is_imported(tmp_path):
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.py").write_text(NOTES_WHAT_IT_SEES)
    config = parse_pbtxt(f'name: "m" backend: "python" {TENSORS}', "config.pbtxt")
    device = DeviceAssignment("node", "GPU-3", 3)
    loaded = load_instance(
        spec(config=config, model_dir=f"{tmp_path}/m", kind="GPU", device_id=3, device=device)
    )
    model = loaded.instance._model
    assert (model.seen, model.index) == ("GPU-3", 0)


@pytest.fixture(scope="module")
def raylet():
    """The pid of a process that was started with GPUs to see."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "1,0"}
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env=environment, **ends) as process:
        # Before its program runs the environment of a process reads empty.
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid


@pytest.mark.parametrize(
    ("backend", "kind", "visible"),
    [("python", "CPU", "1,0"), ("python", "GPU", ""), ("identity", "CPU", "")],
)
def test_only_a_python_model_without_a_gpu_of_its_own_sees_what_the_server_was_given(
    monkeypatch, tmp_path, raylet, backend, kind, visible
):
    monkeypatch.setenv("RAY_RAYLET_PID", str(raylet))
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.py").write_text(NOTES_WHAT_IT_SEES)
    config = parse_pbtxt(f'name: "m" backend: "{backend}" {TENSORS}', "config.pbtxt")
    load_instance(spec(config=config, model_dir=f"{tmp_path}/m", kind=kind))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


AS_VLLM = """
import os

class TritonPythonModel:
    def initialize(self, args):
        self.index = int(args["model_instance_device_id"])
        seen = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        self.by_index = seen[self.index]
        os.environ["CUDA_VISIBLE_DEVICES"] = str(self.index)

    def execute(self, requests):
        raise NotImplementedError
"""
RESERVES = 'parameters { key: "ray_num_gpus" value { string_value: "1" } }'


@pytest.mark.parametrize(
    ("of_ray", "parameters", "fields", "gpu"),
    [
        ("0", "", {"num_gpus": 0.002}, "3"),
        ("0", "", {"resources": {"gpu_3": 0.002}}, "3"),
        ("2", RESERVES, {"num_gpus": 1}, "2"),
        ("", "", {"num_gpus": 0.002}, None),
        ("MIG-1f", "", {"num_gpus": 0.002}, None),
        ("0", "", {"device": DeviceAssignment("node", "GPU-3", 3)}, "3"),
        ("MIG-1f", "", {"device": DeviceAssignment("node", "MIG-1f", 3, is_counted=False)}, None),
    ],
    ids=["shared", "pinned", "left to Ray", "none", "MIG", "assigned", "MIG assigned"],
)
def test_a_python_based_backend_may_take_its_device_id_for_the_nodes_number_of_the_gpu(
    monkeypatch, tmp_path, of_ray, parameters, fields, gpu
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", of_ray)
    for folder in ("backends/engine", "models/m/1"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "backends/engine/model.py").write_text(AS_VLLM)
    config = parse_pbtxt(f'name: "m" backend: "engine" {TENSORS} {parameters}', "config.pbtxt")
    backend_config = {"backend-directory": f"{tmp_path}/backends"}
    loaded = load_instance(
        spec(
            config=config,
            model_dir=f"{tmp_path}/models/m",
            backend_config=backend_config,
            kind="GPU",
            device_id=3,
            **fields,
        )
    )
    model = loaded.instance._model
    assert model.by_index == (of_ray if gpu is None else gpu)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == (gpu or "0")
