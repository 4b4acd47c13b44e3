# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of PyTorch models, and what they do to the process."""

import logging

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from backends.pytorch.settings import prepare_process, read_settings  # noqa: E402 - needs PyTorch
from tests.support import torch_models as models  # noqa: E402 - needs PyTorch

CONFIG = """
name: "m" platform: "pytorch_libtorch" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }
"""


def context(tmp_path, thread_count=1, **parameters):
    text = "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }} '
        for key, value in parameters.items()
    )
    return context_of(tmp_path, CONFIG + text, thread_count=thread_count)


@pytest.fixture(autouse=True)
def _process_is_as_before():
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn.enabled
    profiling = torch._C._jit_set_profiling_mode(True)
    executor = torch._C._jit_set_profiling_executor(True)
    fuser = torch._C._jit_texpr_fuser_enabled()
    yield
    torch.set_num_threads(threads)
    torch.backends.cudnn.enabled = cudnn
    torch._C._jit_set_profiling_mode(profiling)
    torch._C._jit_set_profiling_executor(executor)
    torch._C._jit_set_texpr_fuser_enabled(fuser)
    torch._C._set_graph_executor_optimize(True)


@pytest.mark.parametrize(
    ("parameters", "threads"),
    [
        ({}, 2),
        ({"INTRA_OP_THREAD_COUNT": "1"}, 1),
        ({"NUM_THREADS": "3"}, 3),
        ({"INTRA_OP_THREAD_COUNT": "0"}, 2),
        ({"INTRA_OP_THREAD_COUNT": "-1"}, 2),
    ],
)
def test_threads_are_the_instances_unless_the_config_says(tmp_path, parameters, threads):
    prepare_process(context(tmp_path, thread_count=2, **parameters))
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("key", "what", "true_is"),
    [
        ("DISABLE_CUDNN", "cuDNN", "disabled"),
        ("INFERENCE_MODE", "Inference Mode", "enabled"),
        ("DISABLE_OPTIMIZED_EXECUTION", "Optimized execution", "disabled"),
    ],
)
def test_modes_are_told_in_the_words_of_triton(tmp_path, caplog, key, what, true_is):
    false_is = {"enabled": "disabled", "disabled": "enabled"}[true_is]
    for value, state in (("true", true_is), ("false", false_is)):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            prepare_process(context(tmp_path, **{key: value}))
        assert f"{what} is {state} for model instance 'm'" in caplog.messages


def test_modes_of_torchscript_are_set_when_given(tmp_path):
    prepare_process(context(tmp_path))
    assert torch._C._get_graph_executor_optimize()
    prepare_process(
        context(
            tmp_path,
            DISABLE_OPTIMIZED_EXECUTION="on",
            ENABLE_TENSOR_FUSER="false",
            ENABLE_JIT_PROFILING="0",
            ENABLE_JIT_EXECUTOR="off",
            DISABLE_CUDNN="true",
        )
    )
    assert not torch._C._get_graph_executor_optimize()
    assert not torch._C._jit_texpr_fuser_enabled()
    assert not torch._C._jit_set_profiling_mode(True)
    assert not torch._C._jit_set_profiling_executor(True)
    assert not torch.backends.cudnn.enabled


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("INFERENCE_MODE", "failed to convert 'x' to boolean"),
        ("ENABLE_WEIGHT_SHARING", "failed to convert 'x' to boolean"),
        ("ENABLE_CACHE_CLEANING", "failed to convert 'x' to boolean"),
        ("CACHE_CLEANING_ENABLED", "failed to convert 'x' to boolean"),
        ("DISABLE_CUDNN", "failed to convert 'x' to boolean"),
        ("DISABLE_OPTIMIZED_EXECUTION", "failed to convert 'x' to boolean"),
        ("ENABLE_TENSOR_FUSER", "failed to convert 'x' to boolean"),
        ("ENABLE_JIT_PROFILING", "failed to convert 'x' to boolean"),
        ("ENABLE_JIT_EXECUTOR", "failed to convert 'x' to boolean"),
        ("INTRA_OP_THREAD_COUNT", "failed to convert 'x' to integral number"),
        ("INTER_OP_THREAD_COUNT", "failed to convert 'x' to integral number"),
        ("AUTOCAST", "unknown value 'x'"),
        ("TORCH_COMPILE", "failed to convert 'x' to boolean"),
    ],
)
def test_a_value_that_is_none_fails_the_load_with_the_text_of_triton(tmp_path, key, text):
    made = context(tmp_path, **{key: "x"})
    models.save_script(models.Same(), made.model_path("model.pt"))
    with pytest.raises(InvalidArgumentError) as raised:
        load(made)
    assert raised.value.message.startswith(f"{text}: parameter {key} of model 'm' must be ")


class IsInferring(torch.nn.Module):
    def forward(self, X):  # noqa: N803
        return X + float(torch.is_inference_mode_enabled()) - float(torch.is_grad_enabled())


@pytest.mark.parametrize(("text", "expected"), [("true", 1), ("false", 0), (None, 1)])
def test_executions_are_in_inference_mode_unless_told_not_to(tmp_path, monkeypatch, text, expected):
    made = context(tmp_path, **({"INFERENCE_MODE": text} if text else {}))
    models.save_script(models.Same(), made.model_path("model.pt"))
    instance = load(made)
    program = instance._program
    monkeypatch.setattr(
        instance,
        "_program",
        type(program)(
            lambda x: (IsInferring()(x),), program.inputs, program.outputs, program.device
        ),
    )
    request = recorded({"X": np.zeros((1, 2), np.float32)})
    execute(instance, request)
    assert request.arrays()["Y"].tolist() == [[expected] * 2]


def test_nothing_is_compiled_or_shared_unasked(tmp_path):
    settings = read_settings(context(tmp_path))
    assert (settings.compile_options, settings.shares_weights) == (None, False)
    assert read_settings(context(tmp_path, TORCH_COMPILE="1")).compile_options == {}


def test_a_broken_gpu_ends_the_process_once_it_has_answered(tmp_path, monkeypatch):
    made = context(tmp_path)
    models.save_script(models.Same(), made.model_path("model.pt"))
    instance = load(made)
    ended = []

    class Timer:
        def __init__(self, delay_s, end, arguments):
            ended.append((delay_s > 0, end.__name__, arguments))

        def start(self):
            pass

    monkeypatch.setattr("backends.pytorch.instance.threading.Timer", Timer)
    out_of_memory = torch.AcceleratorError("CUDA error: out of memory")
    instance.failure(out_of_memory, "here")
    assert instance.is_ready()
    assert not ended
    error = instance.failure(torch.AcceleratorError("CUDA error: device-side assert"), "here")
    assert error.message == "PyTorch execute failure: CUDA error: device-side assert (here)"
    assert not instance.is_ready()
    assert ended == [(True, "_exit", (1,))]
