# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a config, as ONNX Runtime gets them."""

import logging
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError
from backends.onnxruntime.options import session_options
from tests.support.models import auto_complete, context_of, load
from tests.support.onnx_graphs import save_add_sub
from tests.support.recording import execute, recorded
from tests.unit.backends.onnxruntime.test_config import BARE, FULL

GLOBAL = {"enable-global-threadpool": "1", "intra_op_thread_count": "3"}


def parameters(**given):
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }} '
        for key, text in given.items()
    )


def options(tmp_path, config="", **fields):
    return session_options(context_of(tmp_path, FULL + config, **fields))


@pytest.mark.parametrize("text", ["true", "on", "1", "TRUE", "false", "off", "0", "False"])
def test_memory_flags_are_the_words_of_triton(tmp_path, text):
    found = options(tmp_path, parameters(enable_mem_arena=text, enable_mem_pattern=text))
    wanted = text.lower() in {"true", "on", "1"}
    assert (found.enable_cpu_mem_arena, found.enable_mem_pattern) == (wanted, wanted)


def test_execution_mode_and_session_entries_are_passed_on(tmp_path):
    entry = "session.use_device_allocator_for_initializers"
    found = options(tmp_path, parameters(**{"execution_mode": "1", entry: "1"}))
    assert found.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert found.get_session_config_entry(entry) == "1"


def test_threads_are_the_instances_share_unless_the_model_says(tmp_path):
    assert options(tmp_path, thread_count=5).intra_op_num_threads == 5
    found = options(tmp_path, parameters(intra_op_thread_count="2", inter_op_thread_count="4"))
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (2, 4)


def test_global_thread_pool_has_the_counts_of_the_backend_config_alone(tmp_path):
    model = parameters(intra_op_thread_count="7", inter_op_thread_count="7")
    found = options(tmp_path, model, backend_config=GLOBAL)
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (3, 1)
    off = GLOBAL | {"enable-global-threadpool": "0"}
    assert options(tmp_path, model, backend_config=off).intra_op_num_threads == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"enable_mem_arena": "yes"}, "failed to convert 'yes' to boolean"),
        ({"intra_op_thread_count": "x"}, "failed to convert 'x' to integral number"),
        ({"execution_mode": "x"}, "failed to convert 'x' to integral number"),
        (
            {"execution_mode": "7"},
            "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 "
            "but got 7 .",
        ),
    ],
)
def test_bad_value_is_refused_with_the_text_of_triton(tmp_path, given, says):
    with pytest.raises(InvalidArgumentError) as raised:
        options(tmp_path, parameters(**given))
    assert raised.value.message.startswith(says)
    assert "odel 'm'" in raised.value.message


def test_bad_setting_of_the_backend_config_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="onnxruntime,intra_op_thread_count"):
        options(tmp_path, backend_config=GLOBAL | {"intra_op_thread_count": "x"})


def test_shared_session_says_that_it_is_none(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        options(tmp_path, parameters(share_session_between_instances="true"))
    assert "share_session_between_instances, which has no effect" in caplog.text


def test_memory_arena_shrinks_after_every_run(tmp_path, monkeypatch):
    entry = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
    context = context_of(tmp_path, FULL + parameters(**entry))
    save_add_sub(context.model_path("model.onnx"))
    instance = load(context)
    seen = []
    session = instance._session

    class Recording:
        def run(self, names, feed, options):
            seen.append(options.get_run_config_entry("memory.enable_memory_arena_shrinkage"))
            return session.run(names, feed, options)

    monkeypatch.setattr(instance, "_session", Recording())
    array = np.ones((1, 4), np.int32)
    request = recorded({"INPUT0": array, "INPUT1": array})
    execute(instance, request)
    assert request.arrays()["OUTPUT0"].tolist() == [[2, 2, 2, 2]]
    assert seen == ["cpu:0"]


OPERATORS = 'model_operations { op_library_filename: "ops/libmine.so" } '


@pytest.mark.parametrize("place", ["version_dir", "model_dir"])
def test_operator_library_is_found_beside_the_model(tmp_path, place):
    context = context_of(tmp_path, BARE + OPERATORS)
    library = Path(getattr(context, place), "ops/libmine.so")
    library.parent.mkdir()
    library.write_bytes(b"no library")
    save_add_sub(context.model_path("model.onnx"))
    with pytest.raises(InternalError, match=f"onnx runtime error.*{library}"):
        auto_complete(context)


def test_operator_library_that_is_not_there_or_outside_is_refused(tmp_path):
    with pytest.raises(UnavailableError, match=r"unable to find '.*/1/ops/libmine.so'"):
        options(tmp_path, OPERATORS)
    with pytest.raises(InvalidArgumentError, match="inside the model's directory"):
        options(tmp_path, OPERATORS.replace("ops/", "../"))
