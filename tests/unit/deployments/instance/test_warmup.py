# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Warmup samples, run on an instance that records what it is given."""

import threading

import numpy as np
import pytest

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.request import InferenceResponse, tensor_as_numpy
from backends.config.pbtxt import parse_pbtxt
from deployments.instance.warmup import run_warmup
from deployments.metrics.counters import InstanceStatistics

TENSORS = """
name: "m"
max_batch_size: 4
input [{ name: "X" data_type: TYPE_FP32 dims: [-1] },
       { name: "S" data_type: TYPE_STRING dims: [2] optional: true }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [-1] }]
"""
ZERO = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: [3] zero_data: true } }'


class Recorder(ModelInstance):
    """Answers everything; keeps the batches it saw."""

    def __init__(self, error=None, *, later=False):
        self.batches = []
        self._error = error
        self._later = later

    def execute(self, batch: ExecuteBatch) -> None:
        self.batches.append([work.request for work in batch.requests])
        for work in batch.requests:
            if self._error is not None:
                work.fail(self._error)
            elif self._later:
                work.respond(InferenceResponse("m", "1"), final=False)
                threading.Thread(target=work.respond, args=(None,), kwargs={"final": True}).start()
            else:
                work.respond(InferenceResponse("m", "1"))


class Silent(Recorder):
    def execute(self, batch: ExecuteBatch) -> None:
        self.batches.append(batch)


def run(instance, *samples, model_dir="/nowhere", rest="", **limits):
    text = TENSORS + rest + "".join(f"model_warmup {{ {sample} }}\n" for sample in samples)
    statistics = InstanceStatistics()
    run_warmup(instance, parse_pbtxt(text, "config.pbtxt"), str(model_dir), statistics, **limits)
    return statistics.snapshot(0)


def test_a_sample_is_one_execution_of_batch_size_requests_each_count_times():
    instance = Recorder()
    run(instance, f'name: "a" batch_size: 3 count: 2 {ZERO}')
    assert [len(batch) for batch in instance.batches] == [3, 3]
    assert [each.inputs[0].shape for each in instance.batches[0]] == [(1, 3)] * 3
    assert not tensor_as_numpy(instance.batches[0][0].inputs[0]).any()


def test_a_sample_of_batch_size_0_is_skipped():
    instance = Recorder()
    run(instance, f'name: "a" batch_size: 0 {ZERO}')
    assert instance.batches == []


def test_executions_count_in_the_statistics():
    totals = run(Recorder(), f'name: "a" batch_size: 2 {ZERO}', f'name: "b" batch_size: 1 {ZERO}')
    assert (totals.execution_count, totals.inference_count, totals.success_count) == (2, 3, 3)
    assert sorted(totals.batches) == [1, 2]


def test_random_strings_are_empty_strings():
    instance = Recorder()
    strings = 'inputs { key: "S" value { data_type: TYPE_STRING dims: [2] random_data: true } }'
    run(instance, f'name: "a" batch_size: 1 {ZERO} {strings}')
    inputs = {each.name: each for each in instance.batches[0][0].inputs}
    assert tensor_as_numpy(inputs["S"]).tolist() == [[b"", b""]]


def test_names_the_config_does_not_know_go_to_the_model_as_controls():
    instance = Recorder()
    control = 'inputs { key: "START" value { data_type: TYPE_INT32 dims: [1] zero_data: true } }'
    run(instance, f'name: "a" batch_size: 1 {ZERO} {control}')
    assert [each.name for each in instance.batches[0][0].inputs] == ["X", "START"]


def test_a_shape_tensor_has_no_batch_dimension():
    instance = Recorder()
    shape = 'input [{ name: "N" data_type: TYPE_INT32 dims: [1] is_shape_tensor: true }]\n'
    sample = 'inputs { key: "N" value { data_type: TYPE_INT32 dims: [1] zero_data: true } }'
    run(instance, f'name: "a" batch_size: 2 {sample} {ZERO}', rest=shape)
    shapes = [[(each.name, each.shape) for each in one.inputs] for one in instance.batches[0]]
    assert shapes == [[("X", (1, 3)), ("N", (1,))]] * 2


def test_data_comes_from_files_of_the_warmup_directory(tmp_path):
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/raw").write_bytes(np.array([1, 2, 3, 4], np.float32).tobytes())
    instance = Recorder()
    file = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: [3] input_data_file: "raw" } }'
    run(instance, f'name: "a" batch_size: 1 {file}', model_dir=tmp_path)
    assert tensor_as_numpy(instance.batches[0][0].inputs[0]).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("dims: [-1] zero_data: true", "expects all variable-size dimensions are specified for in"),
        ("dims: [3]", "warmup setting expects input 'X' to have input_data_type set"),
        ('dims: [9] input_data_file: "raw"', "expects 36 bytes, but the data provided from raw"),
        ('dims: [1] input_data_file: "none"', "cannot read 'warmup/none': No such file"),
        ('dims: [1] input_data_file: "../secret"', "must be a path inside the model's 'warmup'"),
    ],
)
def test_samples_without_their_data_are_refused(tmp_path, value, message):
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/raw").write_bytes(bytes(16))
    (tmp_path / "secret").write_bytes(bytes(16))
    entry = f'inputs {{ key: "X" value {{ data_type: TYPE_FP32 {value} }} }}'
    instance = Recorder()
    with pytest.raises(InvalidArgumentError, match=message):
        run(instance, f'name: "a" batch_size: 1 {entry}', model_dir=tmp_path)
    assert instance.batches == []


def test_a_sample_that_does_not_fit_the_model_is_refused():
    wrong = 'inputs { key: "X" value { data_type: TYPE_INT32 dims: [3] zero_data: true } }'
    with pytest.raises(InvalidArgumentError, match="data-type is 'INT32'"):
        run(Recorder(), f'name: "a" batch_size: 1 {wrong}')


def test_a_failing_sample_fails_the_load_and_later_ones_do_not_run():
    instance = Recorder(UnavailableError("no"))
    with pytest.raises(InvalidArgumentError, match=r"^failed to run warmup sample 'a': no; no; $"):
        run(instance, f'name: "a" batch_size: 2 {ZERO}', f'name: "b" batch_size: 1 {ZERO}')
    assert len(instance.batches) == 1


def test_a_model_that_does_not_answer_fails_the_load():
    with pytest.raises(InvalidArgumentError, match="the model sent no response; "):
        run(Silent(), f'name: "a" batch_size: 1 {ZERO}')


def test_a_decoupled_model_is_waited_for():
    decoupled = "model_transaction_policy { decoupled: true }\n"
    totals = run(Recorder(later=True), f'name: "a" batch_size: 2 {ZERO}', rest=decoupled)
    assert totals.success_count == 2


def test_a_decoupled_model_that_falls_silent_fails_the_load():
    decoupled = "model_transaction_policy { decoupled: true }\n"
    with pytest.raises(InvalidArgumentError, match=r"the model sent no response for 0\.001 s; "):
        run(Silent(), f'name: "a" batch_size: 1 {ZERO}', rest=decoupled, silence_s=0.001)


class Streamer(Recorder):
    """Streams on for as long as it is waited for, and then ends."""

    def __init__(self, count):
        super().__init__()
        self._count = count

    def execute(self, batch: ExecuteBatch) -> None:
        self.batches.append(batch)
        (work,) = batch.requests
        # Each look finds a response since the look before.
        looks = iter(range(self._count))

        def wait(_):
            if next(looks, None) is None:
                work.respond(None, final=True)
                return True
            work.respond(InferenceResponse("m", "1"), final=False)
            return False

        work._ended.wait = wait


def test_a_decoupled_model_may_stream_as_long_as_it_likes():
    decoupled = "model_transaction_policy { decoupled: true }\n"
    totals = run(Streamer(1000), f'name: "a" batch_size: 1 {ZERO}', rest=decoupled, silence_s=0.0)
    assert totals.success_count == 1
