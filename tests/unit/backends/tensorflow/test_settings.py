# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.tensorflow.settings import settings
from tests.support.models import context_of

BARE = 'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel" '


def parameters(**given):
    return BARE + "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }} '
        for key, text in given.items()
    )


def accelerators(kind, name, **given):
    text = "".join(
        f'parameters {{ key: "{key}" value: "{value}" }} ' for key, value in given.items()
    )
    return BARE + (
        f"optimization {{ execution_accelerators {{ {kind}_execution_accelerator "
        f'{{ name: "{name}" {text} }} }} }}'
    )


def test_threads_are_those_of_the_instance_unless_the_config_has_others(tmp_path):
    found = settings(context_of(tmp_path, BARE, thread_count=3))
    assert (found.intra_threads, found.inter_threads, found.own_threads) == (3, 1, False)
    given = parameters(
        TF_NUM_INTRA_THREADS="2",
        TF_NUM_INTER_THREADS="5",
        TF_USE_PER_SESSION_THREADS="True",
        MAX_SESSION_SHARE_COUNT="4",
    )
    found = settings(context_of(tmp_path, given, thread_count=3))
    assert (found.intra_threads, found.inter_threads, found.own_threads) == (2, 5, True)


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        (
            "TF_NUM_INTRA_THREADS",
            "-1",
            "parameter 'TF_NUM_INTRA_THREADS' must be non-negative number for TensorFlow model 'm'",
        ),
        (
            "MAX_SESSION_SHARE_COUNT",
            "0",
            "parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model 'm'",
        ),
        ("TF_NUM_INTER_THREADS", "many", "failed to convert 'many' to integral number"),
        ("TF_USE_PER_SESSION_THREADS", "yes", "failed to convert 'yes' to boolean"),
    ],
)
def test_parameter_of_a_wrong_value_has_the_text_of_triton(tmp_path, key, text, says):
    with pytest.raises(InvalidArgumentError) as raised:
        settings(context_of(tmp_path, parameters(**{key: text})))
    assert raised.value.message.startswith(says)


@pytest.mark.parametrize(("level", "jit"), [(-1, -1), (0, 0), (1, 1), (7, 2)])
def test_graph_level_is_that_of_xla(tmp_path, level, jit):
    context = context_of(tmp_path, BARE + f"optimization {{ graph {{ level: {level} }} }}")
    assert settings(context).jit_level == jit


def test_backend_config_is_read(tmp_path):
    given = {"allow-soft-placement": "false", "gpu-memory-fraction": "0.5"}
    found = settings(context_of(tmp_path, BARE, backend_config=given))
    assert (found.soft_placement, found.gpu_memory_fraction) == (False, 0.5)


@pytest.mark.parametrize(
    "given", [{"allow-soft-placement": "perhaps"}, {"gpu-memory-fraction": "2"}]
)
def test_backend_config_of_a_wrong_value_is_named(tmp_path, given):
    with pytest.raises(InvalidArgumentError, match=next(iter(given))):
        settings(context_of(tmp_path, BARE, backend_config=given))


def test_accelerators_on_cpus_are_refused_or_ignored_as_in_triton(tmp_path, caplog):
    with pytest.raises(InvalidArgumentError, match="CPU Execution Accelerator is not supported in"):
        settings(context_of(tmp_path, accelerators("cpu", "openvino")))
    settings(context_of(tmp_path, accelerators("gpu", "tensorrt")))
    assert "GPU Execution Accelerator will be ignored for model instance on CPU" in caplog.text


@pytest.mark.parametrize(
    ("name", "given", "error", "says"),
    [
        ("tensorrt", {}, UnsupportedError, "no longer part of TensorFlow"),
        (
            "tensorrt",
            {"precision_mode": "INT8"},
            InvalidArgumentError,
            "unsupported precision mode 'INT8' is requested",
        ),
        (
            "tensorrt",
            {"depth": "3"},
            InvalidArgumentError,
            "unknown parameter 'depth' is provided for TensorRT Execution Accelerator",
        ),
        ("magic", {}, InvalidArgumentError, "unknown Execution Accelerator 'magic' is requested"),
    ],
)
def test_accelerators_on_gpus_have_the_texts_of_triton(tmp_path, name, given, error, says):
    context = context_of(tmp_path, accelerators("gpu", name, **given), kind="GPU")
    with pytest.raises(error, match=says):
        settings(context)


def test_mixed_precision_is_for_gpus(tmp_path):
    context = context_of(tmp_path, accelerators("gpu", "auto_mixed_precision"))
    assert not settings(context).mixed_precision
    assert settings(replace(context, kind="GPU")).mixed_precision


def test_init_operations_come_from_the_version_before_the_model(tmp_path):
    context = context_of(tmp_path, parameters(TF_INIT_OPS_FILE="init.json"))
    with pytest.raises(InvalidArgumentError, match=r"names 'init.json', which is neither in"):
        settings(context)
    Path(context.model_dir, "init.json").write_text('{"init_ops": ["of the model"]}')
    assert settings(context).init_operations == ("of the model",)
    Path(context.version_dir, "init.json").write_text('{"init_ops": ["a", "b"]}')
    assert settings(context).init_operations == ("a", "b")
    Path(context.version_dir, "init.json").write_text('["a"]')
    with pytest.raises(InvalidArgumentError, match="must hold JSON of the form"):
        settings(context)
