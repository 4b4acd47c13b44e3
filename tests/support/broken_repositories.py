# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Generated models, most of which are broken: trees, configs, names, links and sizes.

A model begins as one that loads, and gets up to two faults. Nothing here says whether it loads
with them: tests compare what `manta check` says of it with what a load says.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import helper

from tests.support.broken_models import (
    AGENT_FAULTS,
    Fault,
    Folder,
    Link,
    Model,
    added,
    changed,
    content,
    moved,
    named,
    parameter,
    with_file,
)
from tests.support.onnx_graphs import FLOAT, INT32, value

PYTHON = b"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(each, "IN").as_numpy())]
            )
            for each in requests
        ]
"""
COMPLETING = PYTHON.replace(
    b"    def execute",
    b"""    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(0)
        return config

    def execute""",
)
TENSORS = """
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
ENSEMBLE = (
    'platform: "ensemble"\n'
    + TENSORS
    + """
ensemble_scheduling {
  step [
    { model_name: "part" model_version: -1
      input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "MIDDLE" } },
    { model_name: "part" model_version: -1
      input_map { key: "IN" value: "MIDDLE" } output_map { key: "OUT" value: "OUT" } }
  ]
}
"""
)


@cache
def onnx_file(*, batched: bool = False, kind: int = FLOAT) -> bytes:
    shape: list[str | int | None] = ["N", 4] if batched else [4]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        "g",
        [value("IN", kind, shape)],
        [value("OUT", kind, shape)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made.SerializeToString()
    onnx.checker.check_model(made)
    return content


@cache
def weighty_onnx_file() -> bytes:
    """An ONNX model with weights in a file beside it."""
    weight = helper.make_tensor("W", FLOAT, [4], b"\0" * 16, raw=True)
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", "weights.bin"), ("offset", "0"), ("length", "16")):
        weight.external_data.add(key=key, value=text)
    graph = helper.make_graph(
        [helper.make_node("Add", ["IN", "W"], ["OUT"])],
        "g",
        [value("IN", FLOAT, [4])],
        [value("OUT", FLOAT, [4])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made.SerializeToString()
    return content


HEALTHY = (
    Model("python", f'backend: "python"\n{TENSORS}{CPU}', {"1/model.py": PYTHON}),
    Model("python", None, {"1/model.py": COMPLETING}),
    Model("identity", f'backend: "identity"\n{TENSORS}{CPU}', {"1/.keep": b""}),
    Model("onnx", f'backend: "onnxruntime"\n{TENSORS}{CPU}', {"1/model.onnx": onnx_file()}),
    Model("onnx", CPU, {"1/model.onnx": onnx_file(batched=True)}),
    Model("onnx", None, {"1/model.onnx": onnx_file()}),
    Model(
        "onnx",
        f"{TENSORS}{CPU}",
        {"1/model.onnx": weighty_onnx_file(), "1/weights.bin": b"\0" * 16},
    ),
    Model("ensemble", ENSEMBLE, {"1/.keep": b""}),
)

# What the ensembles are made of, and what else is in the repository.
PARTS = {
    "part": Model("identity", f'backend: "identity"\n{TENSORS}{CPU}', {"1/.keep": b""}),
    "integers": Model(
        "identity",
        f'backend: "identity"\n{TENSORS.replace("FP32", "INT32")}{CPU}',
        {"1/.keep": b""},
    ),
    "broken": Model("identity", 'backend: "identity"\nmax_batch_size: -1\n', {"1/.keep": b""}),
    "circle_a": Model("ensemble", ENSEMBLE.replace('"part"', '"circle_b"'), {"1/.keep": b""}),
    "circle_b": Model("ensemble", ENSEMBLE.replace('"part"', '"circle_a"'), {"1/.keep": b""}),
    "nested": Model("ensemble", ENSEMBLE, {"1/.keep": b""}),
}

_ANY: dict[str, Fault] = {
    **AGENT_FAULTS,
    "no such field": added("max_batchsize: 4"),
    "a brace is open": added("dynamic_batching {"),
    "no such type": changed("TYPE_FP32", "TYPE_FLOAT"),
    "another name": added('name: "another"'),
    "a string that is open": added('platform: "x'),
    "a negative batch size": added("max_batch_size: -1"),
    "a batch size": added("max_batch_size: 4"),
    "a number beyond 64 bits": added("max_batch_size: 99999999999999999999"),
    "no dims": changed("dims: [ 4 ]", ""),
    "dims of zero": changed("dims: [ 4 ]", "dims: [ 0 ]"),
    "other dims": changed("dims: [ 4 ]", "dims: [ 4, 1 ]"),
    "dims that vary": changed("dims: [ 4 ]", "dims: [ -1 ]"),
    "no data type": changed("data_type: TYPE_FP32", ""),
    "another data type": changed("TYPE_FP32", "TYPE_INT32"),
    "no tensor name": changed('name: "IN"', ""),
    "another tensor name": changed('name: "IN"', 'name: "OTHER"'),
    "a reshape that does not fit": changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 3 ] }"),
    "a reshape": changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }"),
    "a preferred size without batches": added("dynamic_batching { preferred_batch_size: [ 8 ] }"),
    "dynamic batching": added("dynamic_batching { }"),
    "no default priority": added("dynamic_batching { priority_levels: 2 }"),
    "priorities": added("dynamic_batching { priority_levels: 2 default_priority_level: 1 }"),
    "delays in order": added(
        "dynamic_batching { preserve_ordering: true default_queue_policy { "
        "timeout_action: DELAY default_timeout_microseconds: 9 } }"
    ),
    "no such backend": changed('backend: "', 'backend: "no_'),
    "no backend": changed('backend: "', '# backend: "'),
    "another platform": added('platform: "tensorrt_plan"'),
    "on a GPU": changed("KIND_CPU", "KIND_GPU"),
    "a GPU for the CPU": changed("count: 1", "count: 1 gpus: [ 0 ]"),
    "a profile": changed("count: 1", 'count: 1 profile: [ "0" ]'),
    "no such version": added("version_policy { specific { versions: [ 7 ] } }"),
    "no version wanted": added("version_policy { latest { num_versions: 0 } }"),
    "all versions": added("version_policy { all { } }"),
    "no such labels": changed('name: "OUT"', 'name: "OUT" label_filename: "labels.txt"'),
    "labels elsewhere": changed('name: "OUT"', 'name: "OUT" label_filename: "../labels.txt"'),
    "a sequence without controls": added("sequence_batching { }"),
    "a control without values": added(
        'sequence_batching { control_input [ { name: "START" control [ { '
        "kind: CONTROL_SEQUENCE_START } ] } ] }"
    ),
    "a sequence and a response cache": added(
        "sequence_batching { } response_cache { enable: true }"
    ),
    "a state from no file": added(
        'sequence_batching { state [ { input_name: "S" output_name: "T" data_type: TYPE_FP32 '
        'dims: [ 1 ] initial_state { name: "s" data_type: TYPE_FP32 dims: [ 1 ] data_file: "s" } '
        "} ] }"
    ),
    "warmup from no file": added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        'data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "w" } } } ]'
    ),
    "warmup": added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        "data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]"
    ),
    "warmup of another shape": added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        "data_type: TYPE_FP32 dims: [ 5 ] zero_data: true } } } ]"
    ),
    "cpus that are no number": parameter("ray_num_cpus", "few"),
    "a timeout that is no number": parameter("execution_timeout_us", "soon"),
    "a relative environment": parameter("EXECUTION_ENV_PATH", "here/env.tar.gz"),
    "a runtime_env that is no JSON": parameter("runtime_env", "pip"),
    "buckets of no input": parameter("shape_buckets.NONE", "1,2"),
    "a queue that is no number": parameter("max_queue_size", "long"),
    "a file elsewhere": added('default_model_filename: "../model.py"'),
    "a file that is not there": added('default_model_filename: "missing.py"'),
    "a runtime that is not there": added('runtime: "libtriton_none.so"'),
    "a metric without family": added("model_metrics { metric_control [ { } ] }"),
    "an empty config": lambda model: replace(model, config=""),
    "a comment": added("# nothing"),
    "no config": lambda model: replace(model, config=None),
    "a config that is no text": with_file("config.pbtxt", b'backend: "\xff\xfe"'),
    "a config that is a directory": with_file("config.pbtxt/x", b""),
    "a config that leads nowhere": with_file("config.pbtxt", Link("missing")),
    "no version": lambda model: replace(model, files={}),
    "a version with a zero": moved("1/", "01/"),
    "a version in words": moved("1/", "one/"),
    "a large version": moved("1/", "9223372036854775807/"),
    "a version too large": moved("1/", "9223372036854775808/"),
    "version 0": moved("1/", "0/"),
    "a second version that is empty": with_file("2/.keep", b""),
    "another folder": with_file("notes/readme.txt", b"hello"),
    "a version that is a file": lambda model: replace(model, files={"1": b"model"}),
    "a version that leads nowhere": lambda model: replace(model, files={"1": Link("missing")}),
    "a link to itself": with_file("2", Link("2")),
    "a link to its parent": with_file("1/again", Link("..")),
    "a link elsewhere": with_file("1/elsewhere", Link("/etc/hostname")),
    "an empty file": content(lambda _: b""),
    "another file": content(lambda _: b"\x08\x07\x12\x03abc"),
    "half a file": content(lambda content: content[: len(content) // 2]),
    "a link in place of the file": content(lambda _: Link("missing")),
    "a space in its name": named(" x"),
    "a percent sign in its name": named("%20"),
    "letters of other languages in its name": named("模型é"),
    "quotes in its name": named("'x\""),
    "a dot in its name": named(".onnx"),
    "a long name": named("x" * 200),
}
_BY_KIND: dict[str, dict[str, Fault]] = {
    "python": {
        "no Python": content(lambda content: content + b"\ndef (\n"),
        "no class": content(lambda content: content.replace(b"TritonPythonModel", b"Model")),
        "no execute": content(lambda content: content.replace(b"execute", b"run")),
        "a null": content(lambda content: content + b"\0"),
        "return outside": content(lambda content: content + b"\nreturn 1\n"),
        "a class that is assigned": content(
            lambda content: (
                content.replace(b"class TritonPythonModel", b"class Model")
                + b"\nTritonPythonModel = Model\n"
            )
        ),
        "a class of a base": content(
            lambda content: (
                content.replace(b"class TritonPythonModel", b"class Base")
                + b"\nclass TritonPythonModel(Base):\n    pass\n"
            )
        ),
        "another suffix": moved("1/model.py", "1/model.txt"),
        "a stub": with_file("triton_python_backend_stub", b""),
        "a folder in place of the file": lambda model: replace(model, files={"1/model.py/x": b""}),
    },
    "onnx": {
        "a folder around the file": moved("1/model.onnx", "1/model.onnx/model.onnx"),
        "an empty folder in place of the file": lambda model: replace(
            model, files={"1/model.onnx/x": b""}
        ),
        "integers in the file": content(lambda _: onnx_file(kind=INT32)),
        "batches in the file": content(lambda _: onnx_file(batched=True)),
        "weights that are not there": lambda model: replace(
            model, files={"1/model.onnx": weighty_onnx_file()}
        ),
        "no such execution mode": parameter("execution_mode", "7"),
        "an execution mode": parameter("execution_mode", "1"),
        "threads that are no number": parameter("intra_op_thread_count", "many"),
        "no such graph level": added("optimization { graph { level: 9 } }"),
        "operators that are not there": added('model_operations { op_library_filename: "ops.so" }'),
        "no such accelerator": added(
            'optimization { execution_accelerators { cpu_execution_accelerator : [ { name : "x" '
            "} ] } }"
        ),
        "an input too many": added('input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        "an optional input": changed('name: "IN"', 'name: "IN" optional: true'),
        "a ragged input": changed('name: "IN"', 'name: "IN" allow_ragged_batch: true'),
    },
    "identity": {
        "a delay that is no number": parameter("execute_delay_ms", "long"),
        "an input too many": added('input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
    },
    "ensemble": {
        "a model that is not there": changed('model_name: "part"', 'model_name: "absent"'),
        "a model that does not load": changed('model_name: "part"', 'model_name: "broken"'),
        "a model of integers": changed('model_name: "part"', 'model_name: "integers"'),
        "a circle": changed('model_name: "part"', 'model_name: "circle_a"'),
        "an ensemble in it": changed('model_name: "part"', 'model_name: "nested"'),
        "no such version of a model": changed("model_version: -1", "model_version: 4"),
        "a version of a model": changed("model_version: -1", "model_version: 1"),
        "no such input": changed('key: "IN"', 'key: "NONE"'),
        "no such output": changed('key: "OUT"', 'key: "NONE"'),
        "an input that nobody reads": changed('value: "IN"', 'value: "NONE"'),
        "an output that nobody writes": changed('value: "OUT"', 'value: "NONE"'),
        "a tensor written twice": changed('"MIDDLE"', '"OUT"'),
        "an instance group": added(CPU),
        "a backend": added('backend: "python"'),
        "no platform": changed('platform: "ensemble"', ""),
        "no steps": changed("ensemble_scheduling {", "ensemble_scheduling { } dynamic_batching {"),
        "no such condition": parameter("condition.9", "IN"),
    },
}
_FAULT_COUNTS = (0, 1, 1, 1, 1, 2)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A model with up to two faults."""
    model = draw(st.sampled_from(HEALTHY))
    own = _BY_KIND[model.kind]
    count = draw(st.sampled_from(_FAULT_COUNTS))
    either = st.sampled_from(sorted(_ANY)) | st.sampled_from(sorted(own))
    for fault in draw(st.lists(either, min_size=count, max_size=count, unique=True)):
        changed = ({**_ANY, **own})[fault](model)
        model = replace(changed, faults=(*model.faults, fault))
    return model


def generated(count: int) -> list[Model]:
    """Return that many models, the same in each run."""
    found: list[Model] = []

    @seed(13)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(models())
    def collect(model: Model) -> None:
        found.append(model)

    collect()
    return found[:count]


def write(model: Model, directory: Path) -> None:
    """Write a model's directory."""
    directory.mkdir(parents=True)
    entries = dict(model.files)
    if model.config is not None and not any(p.startswith("config.pbtxt") for p in entries):
        entries["config.pbtxt"] = model.config.encode()
    for name, entry in entries.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, Link):
            path.symlink_to(entry.target)
        elif isinstance(entry, Folder):
            path.mkdir()
        else:
            path.write_bytes(entry)


def write_repository(root: Path, chosen: list[Model]) -> dict[str, Model]:
    """Write models and the parts of ensembles; return the models by name."""
    named = {f"m{index}{model.suffix}": model for index, model in enumerate(chosen)}
    for name, model in {**PARTS, **named}.items():
        write(model, root / name)
    return {**PARTS, **named}
