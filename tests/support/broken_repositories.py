# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Generated models, most of which are broken: trees, configs, names, links and sizes.

A model begins as one that loads, and gets up to two faults. Nothing here says whether it loads
with them: tests compare what `manta check` says of it with what a load says.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import helper

from tests.support.onnx_graphs import FLOAT, INT32, value


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """An empty directory."""


Entry = bytes | Link | Folder


@dataclass(frozen=True)
class Model:
    """A model's directory.

    Attributes:
        kind: What it began as.
        config: Text of its config.pbtxt; None for none.
        files: What else is there, by path.
        suffix: The end of its name.
        faults: What was done to it.
    """

    kind: str
    config: str | None
    files: Mapping[str, Entry] = field(default_factory=dict)
    suffix: str = ""
    faults: tuple[str, ...] = ()


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
    shape: list[object] = ["N", 4] if batched else [4]
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

Fault = Callable[[Model], Model]


def _added(text: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "") + text + "\n")


def _changed(old: str, new: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "").replace(old, new))


def _with(path: str, entry: Entry) -> Fault:
    return lambda model: replace(model, files={**model.files, path: entry})


def _moved(old: str, new: str) -> Fault:
    """Move what lies below ``old`` to ``new``."""
    return lambda model: replace(
        model,
        files={
            new + path.removeprefix(old) if path.startswith(old) else path: entry
            for path, entry in model.files.items()
        },
    )


def _content(change: Callable[[bytes], Entry]) -> Fault:
    """Change the model's own file."""
    return lambda model: replace(
        model,
        files={
            path: change(entry) if isinstance(entry, bytes) and "/model." in path else entry
            for path, entry in model.files.items()
        },
    )


def _named(suffix: str) -> Fault:
    return lambda model: replace(model, suffix=suffix)


def _parameter(key: str, text: str) -> Fault:
    return _added(f'parameters {{ key: "{key}" value: {{ string_value: "{text}" }} }}')


def _agent(name: str, key: str = "", text: str = "") -> Fault:
    parameter = f'parameters {{ key: "{key}" value: "{text}" }}' if key else ""
    return _added(f'model_repository_agents {{ agents {{ name: "{name}" {parameter} }} }}')


def _first_file(model: Model) -> tuple[str, bytes]:
    files = ((path, entry) for path, entry in model.files.items() if isinstance(entry, bytes))
    return next(files, ("1/none", b""))


def _checksum(model: Model) -> Model:
    path, content = _first_file(model)
    return _agent("checksum", f"SHA256:{path}", hashlib.sha256(content).hexdigest())(model)


def _manifest(change: Callable[[dict[str, object]], None] = lambda row: None) -> Fault:
    def put(model: Model) -> Model:
        path, content = _first_file(model)
        top, _, below = path.partition("/")
        row = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        change(row)
        text = json.dumps({"files": {below: row}}).encode()
        return _with(f"{top}/manifest.json", text)(model)

    return put


def _archived(model: Model) -> Model:
    """Put the first file into an archive, and have it unpacked."""
    path, content = _first_file(model)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(path.rpartition("/")[2], content)
    files = {name: entry for name, entry in model.files.items() if name != path}
    files[f"{path.rpartition('/')[0]}/files.zip"] = made.getvalue()
    return _agent("unpack")(replace(model, files=files))


_ANY: dict[str, Fault] = {
    "no such agent": _agent("none"),
    "a checksum": _checksum,
    "a wrong checksum": _agent("checksum", "MD5:config.pbtxt", "0" * 32),
    "a checksum of no file": _agent("checksum", "MD5:1/missing", "0" * 32),
    "a checksum of no algorithm": _agent("checksum", "CRC:config.pbtxt", "0"),
    "a checksum elsewhere": _agent("checksum", "MD5:../part/config.pbtxt", "0" * 32),
    "a manifest": _manifest(),
    "a manifest of another content": _manifest(lambda row: row.update(sha256="0" * 64)),
    "a manifest of another size": _manifest(lambda row: row.update(size_bytes=77)),
    "a manifest that is none": _with("1/manifest.json", b'{"files": []}'),
    "a manifest of the model": _with("manifest.json", b'{"files": {}}'),
    "an archive": _archived,
    "no archive to unpack": _agent("unpack"),
    "no key to decrypt with": _agent("decrypt"),
    "no signature": _agent("verify"),
    "no such field": _added("max_batchsize: 4"),
    "a brace is open": _added("dynamic_batching {"),
    "no such type": _changed("TYPE_FP32", "TYPE_FLOAT"),
    "another name": _added('name: "another"'),
    "a string that is open": _added('platform: "x'),
    "a negative batch size": _added("max_batch_size: -1"),
    "a batch size": _added("max_batch_size: 4"),
    "a number beyond 64 bits": _added("max_batch_size: 99999999999999999999"),
    "no dims": _changed("dims: [ 4 ]", ""),
    "dims of zero": _changed("dims: [ 4 ]", "dims: [ 0 ]"),
    "other dims": _changed("dims: [ 4 ]", "dims: [ 4, 1 ]"),
    "dims that vary": _changed("dims: [ 4 ]", "dims: [ -1 ]"),
    "no data type": _changed("data_type: TYPE_FP32", ""),
    "another data type": _changed("TYPE_FP32", "TYPE_INT32"),
    "no tensor name": _changed('name: "IN"', ""),
    "another tensor name": _changed('name: "IN"', 'name: "OTHER"'),
    "a reshape that does not fit": _changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 3 ] }"),
    "a reshape": _changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }"),
    "a preferred size without batches": _added("dynamic_batching { preferred_batch_size: [ 8 ] }"),
    "dynamic batching": _added("dynamic_batching { }"),
    "no default priority": _added("dynamic_batching { priority_levels: 2 }"),
    "priorities": _added("dynamic_batching { priority_levels: 2 default_priority_level: 1 }"),
    "delays in order": _added(
        "dynamic_batching { preserve_ordering: true default_queue_policy { "
        "timeout_action: DELAY default_timeout_microseconds: 9 } }"
    ),
    "no such backend": _changed('backend: "', 'backend: "no_'),
    "no backend": _changed('backend: "', '# backend: "'),
    "another platform": _added('platform: "tensorrt_plan"'),
    "on a GPU": _changed("KIND_CPU", "KIND_GPU"),
    "a GPU for the CPU": _changed("count: 1", "count: 1 gpus: [ 0 ]"),
    "a profile": _changed("count: 1", 'count: 1 profile: [ "0" ]'),
    "no such version": _added("version_policy { specific { versions: [ 7 ] } }"),
    "no version wanted": _added("version_policy { latest { num_versions: 0 } }"),
    "all versions": _added("version_policy { all { } }"),
    "no such labels": _changed('name: "OUT"', 'name: "OUT" label_filename: "labels.txt"'),
    "labels elsewhere": _changed('name: "OUT"', 'name: "OUT" label_filename: "../labels.txt"'),
    "a sequence without controls": _added("sequence_batching { }"),
    "a control without values": _added(
        'sequence_batching { control_input [ { name: "START" control [ { '
        "kind: CONTROL_SEQUENCE_START } ] } ] }"
    ),
    "a sequence and a response cache": _added(
        "sequence_batching { } response_cache { enable: true }"
    ),
    "a state from no file": _added(
        'sequence_batching { state [ { input_name: "S" output_name: "T" data_type: TYPE_FP32 '
        'dims: [ 1 ] initial_state { name: "s" data_type: TYPE_FP32 dims: [ 1 ] data_file: "s" } '
        "} ] }"
    ),
    "warmup from no file": _added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        'data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "w" } } } ]'
    ),
    "warmup": _added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        "data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]"
    ),
    "warmup of another shape": _added(
        'model_warmup [ { name: "w" batch_size: 1 inputs { key: "IN" value: { '
        "data_type: TYPE_FP32 dims: [ 5 ] zero_data: true } } } ]"
    ),
    "cpus that are no number": _parameter("ray_num_cpus", "few"),
    "a timeout that is no number": _parameter("execution_timeout_us", "soon"),
    "a relative environment": _parameter("EXECUTION_ENV_PATH", "here/env.tar.gz"),
    "a runtime_env that is no JSON": _parameter("runtime_env", "pip"),
    "buckets of no input": _parameter("shape_buckets.NONE", "1,2"),
    "a queue that is no number": _parameter("max_queue_size", "long"),
    "a file elsewhere": _added('default_model_filename: "../model.py"'),
    "a file that is not there": _added('default_model_filename: "missing.py"'),
    "a runtime that is not there": _added('runtime: "libtriton_none.so"'),
    "a metric without family": _added("model_metrics { metric_control [ { } ] }"),
    "an empty config": lambda model: replace(model, config=""),
    "a comment": _added("# nothing"),
    "no config": lambda model: replace(model, config=None),
    "a config that is no text": _with("config.pbtxt", b'backend: "\xff\xfe"'),
    "a config that is a directory": _with("config.pbtxt/x", b""),
    "a config that leads nowhere": _with("config.pbtxt", Link("missing")),
    "no version": lambda model: replace(model, files={}),
    "a version with a zero": _moved("1/", "01/"),
    "a version in words": _moved("1/", "one/"),
    "a large version": _moved("1/", "9223372036854775807/"),
    "a version too large": _moved("1/", "9223372036854775808/"),
    "version 0": _moved("1/", "0/"),
    "a second version that is empty": _with("2/.keep", b""),
    "another folder": _with("notes/readme.txt", b"hello"),
    "a version that is a file": lambda model: replace(model, files={"1": b"model"}),
    "a version that leads nowhere": lambda model: replace(model, files={"1": Link("missing")}),
    "a link to itself": _with("2", Link("2")),
    "a link to its parent": _with("1/again", Link("..")),
    "a link elsewhere": _with("1/elsewhere", Link("/etc/hostname")),
    "an empty file": _content(lambda _: b""),
    "another file": _content(lambda _: b"\x08\x07\x12\x03abc"),
    "half a file": _content(lambda content: content[: len(content) // 2]),
    "a link in place of the file": _content(lambda _: Link("missing")),
    "a space in its name": _named(" x"),
    "a percent sign in its name": _named("%20"),
    "letters of other languages in its name": _named("模型é"),
    "quotes in its name": _named("'x\""),
    "a dot in its name": _named(".onnx"),
    "a long name": _named("x" * 200),
}
_BY_KIND: dict[str, dict[str, Fault]] = {
    "python": {
        "no Python": _content(lambda content: content + b"\ndef (\n"),
        "no class": _content(lambda content: content.replace(b"TritonPythonModel", b"Model")),
        "no execute": _content(lambda content: content.replace(b"execute", b"run")),
        "a null": _content(lambda content: content + b"\0"),
        "return outside": _content(lambda content: content + b"\nreturn 1\n"),
        "a class that is assigned": _content(
            lambda content: (
                content.replace(b"class TritonPythonModel", b"class Model")
                + b"\nTritonPythonModel = Model\n"
            )
        ),
        "a class of a base": _content(
            lambda content: (
                content.replace(b"class TritonPythonModel", b"class Base")
                + b"\nclass TritonPythonModel(Base):\n    pass\n"
            )
        ),
        "another suffix": _moved("1/model.py", "1/model.txt"),
        "a stub": _with("triton_python_backend_stub", b""),
        "a folder in place of the file": lambda model: replace(model, files={"1/model.py/x": b""}),
    },
    "onnx": {
        "a folder around the file": _moved("1/model.onnx", "1/model.onnx/model.onnx"),
        "an empty folder in place of the file": lambda model: replace(
            model, files={"1/model.onnx/x": b""}
        ),
        "integers in the file": _content(lambda _: onnx_file(kind=INT32)),
        "batches in the file": _content(lambda _: onnx_file(batched=True)),
        "weights that are not there": lambda model: replace(
            model, files={"1/model.onnx": weighty_onnx_file()}
        ),
        "no such execution mode": _parameter("execution_mode", "7"),
        "an execution mode": _parameter("execution_mode", "1"),
        "threads that are no number": _parameter("intra_op_thread_count", "many"),
        "no such graph level": _added("optimization { graph { level: 9 } }"),
        "operators that are not there": _added(
            'model_operations { op_library_filename: "ops.so" }'
        ),
        "no such accelerator": _added(
            'optimization { execution_accelerators { cpu_execution_accelerator : [ { name : "x" '
            "} ] } }"
        ),
        "an input too many": _added('input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
        "an optional input": _changed('name: "IN"', 'name: "IN" optional: true'),
        "a ragged input": _changed('name: "IN"', 'name: "IN" allow_ragged_batch: true'),
    },
    "identity": {
        "a delay that is no number": _parameter("execute_delay_ms", "long"),
        "an input too many": _added('input [ { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] } ]'),
    },
    "ensemble": {
        "a model that is not there": _changed('model_name: "part"', 'model_name: "absent"'),
        "a model that does not load": _changed('model_name: "part"', 'model_name: "broken"'),
        "a model of integers": _changed('model_name: "part"', 'model_name: "integers"'),
        "a circle": _changed('model_name: "part"', 'model_name: "circle_a"'),
        "an ensemble in it": _changed('model_name: "part"', 'model_name: "nested"'),
        "no such version of a model": _changed("model_version: -1", "model_version: 4"),
        "a version of a model": _changed("model_version: -1", "model_version: 1"),
        "no such input": _changed('key: "IN"', 'key: "NONE"'),
        "no such output": _changed('key: "OUT"', 'key: "NONE"'),
        "an input that nobody reads": _changed('value: "IN"', 'value: "NONE"'),
        "an output that nobody writes": _changed('value: "OUT"', 'value: "NONE"'),
        "a tensor written twice": _changed('"MIDDLE"', '"OUT"'),
        "an instance group": _added(CPU),
        "a backend": _added('backend: "python"'),
        "no platform": _changed('platform: "ensemble"', ""),
        "no steps": _changed("ensemble_scheduling {", "ensemble_scheduling { } dynamic_batching {"),
        "no such condition": _parameter("condition.9", "IN"),
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
