# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which providers ONNX Runtime is asked for, with which options.

No provider but the CPU's is here: what is shown is what the runtime would be told.
"""

import logging
import os
from pathlib import Path

import onnxruntime
import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError, UnsupportedError
from backends.onnxruntime import providers
from backends.onnxruntime.engine_cache import engine_folder
from tests.support.models import context_of, load
from tests.support.onnx_graphs import save_add_sub
from tests.unit.backends.onnxruntime.test_config import FULL
from tests.unit.backends.onnxruntime.test_options import parameters

ALL = [providers.TENSORRT, providers.CUDA, providers.OPENVINO, providers.CPU]


def accelerator(name, side="gpu", **given):
    entries = "".join(f'parameters {{ key: "{k}" value: "{v}" }} ' for k, v in given.items())
    return (
        f"optimization {{ execution_accelerators {{ {side}_execution_accelerator "
        f'{{ name: "{name}" {entries} }} }} }} '
    )


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Return a function that loads a model and gives the providers the runtime was asked for."""
    monkeypatch.setenv("MANTA_TENSORRT_CACHE", str(tmp_path / "engines"))
    given = []
    lacking = set()

    class Session:
        def __init__(self, path, options, providers):
            given.append(providers)
            self._real = onnxruntime_session(path, options, providers=[ALL[-1]])
            self._names = [each if isinstance(each, str) else each[0] for each in providers]

        def get_providers(self):
            return [each for each in self._names if each not in lacking]

        def __getattr__(self, name):
            return getattr(self._real, name)

    onnxruntime_session = onnxruntime.InferenceSession

    def ask(config="", kind="GPU", available=ALL, device_id=0, broken=()):
        lacking.update(broken)
        monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: list(available))
        context = context_of(tmp_path, FULL + config, kind=kind, device_id=device_id)
        save_add_sub(context.model_path("model.onnx"))
        load(context).close()
        return given[-1]

    return ask


def refusal(asked, *arguments, error=InvalidArgumentError, **fields):
    with pytest.raises(error) as raised:
        asked(*arguments, **fields)
    return raised.value.message


def test_gpu_instance_runs_with_cuda_and_falls_back_to_cpu_kernels(asked):
    assert asked(device_id=2) == [(providers.CUDA, {"device_id": "2"}), providers.CPU]
    assert asked(kind="CPU") == [providers.CPU]


def test_numbers_of_triton_become_the_words_of_the_provider(asked):
    config = parameters(
        cudnn_conv_algo_search="1",
        arena_extend_strategy="1",
        do_copy_in_default_stream="off",
        gpu_mem_limit="4294967200",
    )
    assert asked(config)[0] == (
        providers.CUDA,
        {
            "cudnn_conv_algo_search": "HEURISTIC",
            "arena_extend_strategy": "kSameAsRequested",
            "do_copy_in_default_stream": "0",
            "gpu_mem_limit": "4294967200",
            "device_id": "0",
        },
    )


def test_every_option_of_the_cuda_accelerator_goes_to_the_provider_and_wins(asked):
    config = parameters(cudnn_conv_algo_search="0") + accelerator(
        "cuda",
        cudnn_conv_use_max_workspace="0",
        use_ep_level_unified_stream="true",
        cudnn_conv_algo_search="DEFAULT",
        empty="",
    )
    assert asked(config)[0][1] == {
        "cudnn_conv_use_max_workspace": "0",
        "use_ep_level_unified_stream": "1",
        "cudnn_conv_algo_search": "DEFAULT",
        "device_id": "0",
    }


def test_tensorrt_comes_before_cuda_with_its_options(asked):
    config = accelerator(
        "tensorrt",
        precision_mode="FP16",
        max_workspace_size_bytes="1073741824",
        int8_calibration_table_name="table",
        int8_use_native_calibration_table="0",
        trt_engine_cache_enable="on",
        trt_engine_cache_path="/engines",
        trt_builder_optimization_level="3",
        trt_profile_min_shapes="INPUT0:1x4",
    )
    first, second, last = asked(config, device_id=1)
    assert first == (
        providers.TENSORRT,
        {
            "trt_fp16_enable": "True",
            "trt_max_workspace_size": "1073741824",
            "trt_int8_calibration_table_name": "table",
            "trt_int8_use_native_calibration_table": "False",
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": "/engines",
            "trt_builder_optimization_level": "3",
            "trt_profile_min_shapes": "INPUT0:1x4",
            "device_id": "1",
        },
    )
    assert (second[0], last) == (providers.CUDA, providers.CPU)


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("FP32", {}),
        ("FP16", {"trt_fp16_enable": "True"}),
        ("BF16", {"trt_bf16_enable": "True"}),
        ("INT8", {"trt_int8_enable": "True"}),
    ],
)
def test_precision_of_tensorrt(mode, option):
    found = providers.tensorrt_options({"precision_mode": mode}, 0)
    assert found == option | {"device_id": "0"}


def test_all_parameters_of_the_readme_are_known():
    flags = {
        key: "1"
        for key, (_, read) in providers._TENSORRT_OPTIONS.items()
        if read != providers._text
    }
    assert len(providers._TENSORRT_OPTIONS) == 31
    found = providers.tensorrt_options(flags, 0)
    assert all(name.startswith("trt_") for name in found.keys() - {"device_id"})
    assert set(found.values()) == {"0", "1", "True"}


def test_engines_are_kept_on_the_node_unless_the_config_says_otherwise(asked, tmp_path):
    options = asked(accelerator("tensorrt"))[0][1]
    assert options["trt_engine_cache_enable"] == "True"
    assert options["trt_engine_cache_path"].startswith(str(tmp_path / "engines"))
    assert Path(options["trt_engine_cache_path"]).is_dir()
    off = asked(accelerator("tensorrt", trt_engine_cache_enable="0"))[0][1]
    assert off == {"trt_engine_cache_enable": "False", "device_id": "0"}


def test_changed_model_has_engines_of_its_own_and_loses_the_old(tmp_path, monkeypatch):
    monkeypatch.setenv("MANTA_TENSORRT_CACHE", str(tmp_path / "engines"))
    model = tmp_path / "model.onnx"
    model.write_bytes(b"1")
    before = engine_folder(str(model))
    assert engine_folder(str(model)) == before
    os.utime(model, ns=(1, 1))
    assert engine_folder(str(model)) != before
    assert not Path(before).exists()


def test_engines_are_not_kept_where_somebody_else_could_write(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"manta-tensorrt-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"manta-tensorrt-{os.getuid()}").chmod(0o777)
    (tmp_path / "model.onnx").touch()
    assert engine_folder(str(tmp_path / "model.onnx")) == ""
    assert "MANTA_TENSORRT_CACHE" in caplog.text


def test_openvino_accelerator_runs_on_the_cpu_with_its_options(asked):
    config = accelerator("openvino", "cpu", num_of_threads="4")
    wanted = (providers.OPENVINO, {"device_type": "CPU", "num_of_threads": "4"})
    assert asked(config, kind="CPU") == [wanted, providers.CPU]
    assert [each[0] for each in asked(config)[:2]] == [providers.CUDA, providers.OPENVINO]


def test_accelerator_of_gpus_is_ignored_on_cpus_with_a_warning(asked, caplog):
    with caplog.at_level(logging.WARNING):
        assert asked(accelerator("tensorrt"), kind="CPU") == [providers.CPU]
    assert "GPU Execution Accelerator will be ignored for model instance on CPU" in caplog.text


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (accelerator("unknown_gpu"), "unknown Execution Accelerator 'unknown_gpu' is requested"),
        (
            accelerator("unknown_cpu", "cpu"),
            "unknown Execution Accelerator 'unknown_cpu' is requested",
        ),
        (
            accelerator("tensorrt", segment_size="1"),
            "unknown parameter 'segment_size' is provided for TensorRT Execution Accelerator",
        ),
        (
            accelerator("tensorrt", precision_mode="FP8"),
            "unsupported precision mode 'FP8' is requested",
        ),
        (
            accelerator("tensorrt", max_workspace_size_bytes="abc"),
            "failed to convert 'abc' to unsigned long long integral number",
        ),
        (
            accelerator("tensorrt", max_workspace_size_bytes="-1"),
            "failed to convert '-1' to unsigned long long integral number",
        ),
        (
            accelerator("tensorrt", trt_dla_core="x"),
            "failed to convert 'x' to integral number",
        ),
        (accelerator("tensorrt", trt_dla_enable="x"), "failed to convert 'x' to boolean"),
        (
            accelerator("cuda", use_ep_level_unified_stream="x"),
            "failed to convert 'x' to boolean",
        ),
        (
            parameters(cudnn_conv_algo_search="3"),
            "unsupported cudnn_conv_algo_search value '3' is requested",
        ),
        (
            parameters(arena_extend_strategy="2"),
            "unsupported arena_extend_strategy value '2' is requested",
        ),
    ],
)
def test_wrong_accelerator_is_refused_with_the_text_of_triton(asked, config, says):
    assert refusal(asked, config).startswith(says)


def test_provider_that_the_runtime_lacks_is_refused_with_advice(asked):
    cuda = [providers.CUDA, providers.CPU]
    text = refusal(asked, accelerator("tensorrt"), available=cuda, error=UnavailableError)
    assert "backend 'tensorrt'" in text
    text = refusal(asked, available=[providers.CPU], error=UnavailableError)
    assert "install onnxruntime-gpu" in text
    openvino = accelerator("openvino", "cpu")
    text = refusal(asked, openvino, kind="CPU", available=cuda, error=UnsupportedError)
    assert "backend 'openvino'" in text


@pytest.mark.parametrize("provider", [providers.TENSORRT, providers.CUDA])
def test_runtime_that_falls_back_silently_fails_the_load(asked, provider):
    config = accelerator("tensorrt") if provider == providers.TENSORRT else ""
    text = refusal(asked, config, broken=[provider], error=UnavailableError)
    assert f"asked for {provider} on GPU 0 but ONNX Runtime fell back to" in text
