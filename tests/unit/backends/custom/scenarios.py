# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is done with each library of ``libraries``; prints as JSON what came of it.

A process has one library, as an instance's process has, and a library may end it.
"""

import json
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from backends.api.errors import TritonError
from backends.config.pbtxt import to_json_dict
from backends.custom import calls
from backends.custom.backend import CustomBackend
from backends.registry import backend_for
from tests.support.models import context_of
from tests.support.recording import execute, recorded
from tests.support.request_memory import RequestMemory

TENSORS = """
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] }
"""


class Lines(logging.Handler):
    """Keeps log lines."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def emit(self, record):
        self.kept.append([record.levelname, record.filename, record.getMessage()])


class Stage:
    """The directories, and the log lines."""

    def __init__(self, backend_directory, place):
        self.settings = {"backend-directory": backend_directory}
        self.place = Path(place)
        self.lines = Lines()
        logging.getLogger().addHandler(self.lines)

    def context(self, config, **settings):
        return context_of(self.place, config, backend_config=self.settings | settings)

    def load(self, config, **settings):
        context = self.context(config, **settings)
        return backend_for(context).load(context)

    @property
    def warnings(self):
        return [text for level, _, text in self.lines.kept if level == "WARNING"]


def number(value, **fields):
    return recorded({"INPUT0": np.array([value], np.int32)}, **fields)


def row(value):
    return recorded({"INPUT0": np.array([[value]], np.int32)})


def answers(request):
    return [
        answer.as_string()
        if isinstance(answer, TritonError)
        else [int.from_bytes(output.data, "little", signed=True) for output in answer.outputs]
        for answer in request.answers
    ]


def echo(stage):
    instance = stage.load('name: "m" backend: "echo"' + TENSORS.replace("[ 1 ]", "[ -1 ]"))
    plain, failed = number(5), number(6, parameters={"fail": "as you wish"})
    rich = number(
        7,
        id="seven",
        correlation_id=18446744073709551615,
        flags=3,
        timeout_us=9,
        parameters={"i": -5, "s": "é", "b": True, "d": 0.5},
        outputs=["OUTPUT0"],
    )
    rich.is_cancelled = True
    named = number(8, correlation_id="text")
    execute(instance, plain, failed, rich, named)
    sizes = [0, 1, 4095, 4096, 100_000]
    arrays = [np.arange(size, dtype=np.int32) for size in sizes]
    many = [recorded({"INPUT0": array}) for array in arrays]
    execute(instance, *many)
    shifted = np.frombuffer(b"x" + arrays[-1].tobytes(), np.uint8)[1:]
    unaligned = recorded({"INPUT0": arrays[-1]})
    unaligned.request.inputs[0].data = shifted.data
    execute(instance, unaligned)
    texts = recorded({"INPUT0": np.array([b"a", b"bc"], np.object_)})
    execute(instance, texts)
    result = {
        "plain": answers(plain),
        "plain parameters": plain.response.parameters,
        "failed": answers(failed),
        "rich": rich.response.parameters,
        "named": named.response.parameters["correlation"],
        "sizes": [
            np.array_equal(request.arrays()["OUTPUT0"], array)
            for request, array in zip([*many, unaligned], [*arrays, arrays[-1]], strict=True)
        ],
        "texts": [each.decode() for each in texts.arrays()["OUTPUT0"]],
        "has readiness": instance.has_readiness,
        "is ready": instance.is_ready(),
        "lines": stage.lines.kept,
    }
    instance.close()
    return result


def optional(stage):
    tensors = TENSORS.replace("[ 1 ]", "[ -1 ] optional: true", 1).replace("[ 1 ]", "[ -1 ]")
    instance = stage.load('name: "m" backend: "echo"' + tensors)
    found = []
    for size in (1, 100_000):
        for value in (424242, None, 5, None):
            given = {} if value is None else {"INPUT0": np.full(size, value, np.int32)}
            request = recorded(given)
            memory = RequestMemory(request)
            execute(instance, request)
            memory.pass_on(b"\7")
            if value is None:
                found.append(request.error.as_string())
            else:
                found.append(sorted(set(request.arrays()["OUTPUT0"].tolist())))
    instance.close()
    return found


def batched(stage):
    instance = stage.load('name: "m" backend: "batched" max_batch_size: 8' + TENSORS)
    requests = [row(1) for _ in range(3)]
    begin_ns = time.monotonic_ns()
    batch = execute(instance, *requests)
    end_ns = time.monotonic_ns()
    instance.close()
    return {
        "answers": [answers(each) for each in requests],
        "times are told": begin_ns < batch.compute_input_end_ns < end_ns,
        "computing ms": (batch.compute_output_start_ns - batch.compute_input_end_ns) / 1e6,
        "has readiness": instance.has_readiness,
    }


def strategy(stage, place):
    config = 'name: "m" backend: "batched" max_batch_size: 8' + TENSORS
    own = stage.context(config)
    library = Path(stage.settings["backend-directory"], "strategy", "libtriton_strategy.so")
    if place == "version":
        Path(own.version_dir, "batchstrategy.so").symlink_to(library)
    else:
        path = Path(own.model_dir, "mine.so")
        path.write_bytes(library.read_bytes())
        config += f"""parameters {{ key: "TRITON_BATCH_STRATEGY_PATH"
            value {{ string_value: "{path}" }} }}"""
    instance = stage.load(config)
    requests = [row(value) for value in (1, 2, 1, 9, 1, 1, 1)]
    execute(instance, *requests)
    instance.close()
    return [answers(each)[0][0] for each in requests]


def decoupled(stage):
    instance = stage.load(
        'name: "m" backend: "decoupled" model_transaction_policy { decoupled: true }' + TENSORS
    )
    wishes = {
        "three": 3,
        "none": 0,
        "thousand": 1000,
        "error": -1,
        "forgotten": -2,
        "cancelled": -3,
    }
    requests = {name: number(wish) for name, wish in wishes.items()}
    execute(instance, *requests.values())
    requests["cancelled"].is_cancelled = True
    refused = number(-4)
    execute(instance, refused)
    again = number(-5)
    execute(instance, again)
    result = {}
    for name, request in [*requests.items(), ("refused", refused)]:
        assert request.done.wait(30), name
        result[name] = answers(request)
    result["again"] = [answers(again), again.is_rescheduled, again.is_done]
    result["left"] = len(calls.PROCESS.open)
    instance.close()
    return result


def stateful(stage):
    instance = stage.load(
        'name: "m" backend: "stateful" sequence_batching { state { input_name: "old_sum" '
        'output_name: "sum" data_type: TYPE_INT32 dims: [ 1 ] '
        "use_same_buffer_for_input_output: true } }" + TENSORS
    )

    def step(value, old):
        request = number(value)
        request.request.inputs += recorded({"old_sum": np.array([old], np.int32)}).request.inputs
        execute(instance, request)
        answer = request.answers[0]
        if isinstance(answer, TritonError):
            return answer.as_string()
        return {name: array.tolist() for name, array in request.arrays().items()}

    result = [step(3, 4), step(100, 0), step(50, 8)]
    instance.close()
    return result


def stateless(stage):
    instance = stage.load('name: "m" backend: "stateful" sequence_batching { }' + TENSORS)
    request = number(3)
    request.request.inputs += recorded({"old_sum": np.array([4], np.int32)}).request.inputs
    execute(instance, request)
    return answers(request)[0]


def metrics(stage):
    instance = stage.load('name: "m" backend: "metrics"' + TENSORS)
    for size in (1, 3, 2):
        execute(instance, *[number(1) for _ in range(size)])
    families = instance.custom_metrics()
    result = {
        "families": [
            [each.name, each.kind.name, each.description, *each.metrics[0].labels]
            for each in families
        ],
        "values": [each.metrics[0].value for each in families],
        "buckets": [families[-1].metrics[0].bounds, families[-1].metrics[0].counts],
        "gauge is dated": next(
            each.metrics[0].set_ns > 0 for each in families if each.name == "last_size"
        ),
        "refused": stage.warnings,
    }
    instance.close()
    return result | {"after": len(instance.custom_metrics())}


def completing(stage):
    context = stage.context('name: "m" backend: "completing"', mine="yes")
    backend = CustomBackend()
    config = backend.auto_complete(context)
    backend.load(replace(context, config=config)).close()
    tree = to_json_dict(config)
    fields = ("backend", "max_batch_size", "input", "output", "dynamic_batching")
    said = [line.partition(": ")[::2] for line in stage.warnings]
    return {
        "config": {name: tree[name] for name in fields},
        "said": dict(said),
        "initialisations": sum(what == "may complete" for what, _ in said),
    }


def failing(stage, where):
    config = 'name: "m" backend: "failing" instance_group { name: "m_0" count: 1 }' + TENSORS
    context = stage.context(config, stage=where)
    backend = CustomBackend()
    try:
        if where == "complete":
            backend.auto_complete(context)
        instance = backend.load(context)
    except TritonError as error:
        return {"load": error.as_string()}
    requests = [number(4), number(5)]
    execute(instance, *requests)
    instance.close()
    if where == "later":
        return [each.is_rescheduled and not each.is_done for each in requests]
    return {
        "answers": [answers(each)[0] for each in requests],
        "errors": [text for level, _, text in stage.lines.kept if level == "ERROR"],
    }


def throwing(stage):
    instance = stage.load('name: "m" backend: "throwing"' + TENSORS)
    requests = [number(1), number(2)]
    for request in requests:
        execute(instance, request)
    return [answers(each)[0] for each in requests]


def unloadable(stage, library):
    try:
        stage.load(f'name: "m" backend: "{library}"' + TENSORS)
    except TritonError as error:
        return error.as_string()


SCENARIOS = {
    each.__name__: each
    for each in (
        echo,
        optional,
        batched,
        strategy,
        decoupled,
        stateful,
        stateless,
        metrics,
        completing,
        failing,
        throwing,
        unloadable,
    )
}

if __name__ == "__main__":
    backend_directory, place, name, *arguments = sys.argv[1:]
    found = SCENARIOS[name](Stage(backend_directory, place), *arguments)
    json.dump(found, sys.stdout)
