# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that the client examples ask for, as models of our own."""

from dataclasses import dataclass
from pathlib import Path

_ADD_SUB = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (tensor.as_numpy() for tensor in request.inputs())
            if a.dtype == np.object_:
                a, b = a.astype(np.int64), b.astype(np.int64)
                results = [np.char.encode((a + b).astype(str)), np.char.encode((a - b).astype(str))]
                results = [result.astype(np.object_) for result in results]
            else:
                results = [a + b, a - b]
            tensors = [pb_utils.Tensor(f"OUTPUT{i}", result) for i, result in enumerate(results)]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
"""

_IDENTITY = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", request.inputs()[0].as_numpy())]
            )
            for request in requests
        ]
"""

# What the sequence examples expect: INPUT, one more at the start and, where the model is told the
# correlation id, the id more at the end; sequences with string ids are summed up instead.
_SEQUENCE = """
class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}
        self.is_summing = args["model_name"] == "simple_string_dyna_sequence"

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        value = given["INPUT"]
        is_start, key = bool(given["START"].any()), request.correlation_id()
        if self.is_summing:
            value = value + (0 if is_start else self.sums[key])
            self.sums[key] = value
        else:
            value = value + is_start
        if "END" in given and given["END"].any():
            self.sums.pop(key, None)
            value = value + int(given["CORRID"].reshape(-1)[0])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", value.astype(np.int32))])
"""

_REPEAT = """
import time

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            values, delays_ms, wait_ms = (tensor.as_numpy() for tensor in request.inputs())
            sender = request.get_response_sender()
            for index, value in enumerate(values):
                time.sleep(delays_ms[index] / 1000)
                tensors = [
                    pb_utils.Tensor("OUT", np.array([value], np.int32)),
                    pb_utils.Tensor("IDX", np.array([index], np.uint32)),
                ]
                sender.send(pb_utils.InferenceResponse(tensors))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            time.sleep(wait_ms[0] / 1000)
"""

# Any bytes are an image to these two: the first scores each byte value by how often it occurs.
_PREPROCESS = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request.inputs()[0].as_numpy()) for request in requests]

    def answer(self, images):
        counts = [np.bincount(np.frombuffer(each, np.uint8)[:4096] % 5, minlength=5)
                  for each in images.reshape(-1)]
        scores = np.stack(counts).astype(np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores)])
"""

_CLASSIFY = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("CLASSES", request.inputs()[0].as_numpy())])
            for request in requests
        ]
"""

_CLASSIFIER = """
class TritonPythonModel:
    def execute(self, requests):
        scores = np.arange(1000, dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("fc6_1", scores)]) for _ in requests]
"""

_CONTROL = 'control_input {{ name: "{0}" control {{ kind: CONTROL_SEQUENCE_{0} {1} }} }}'
_FLAG = "int32_false_true: [ 0, 1 ]"
_OLDEST = "oldest { max_candidate_sequences: 64 }"


def _tensors(kind: str, *tensors: tuple[str, str, int]) -> str:
    return "\n".join(
        f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dim} ] }}'
        for name, datatype, dim in tensors
    )


def _pair(kind: str, datatype: str) -> str:
    return _tensors(kind, (f"{kind.upper()}0", datatype, 16), (f"{kind.upper()}1", datatype, 16))


def _sequence(*controls: str) -> str:
    return "\n".join(
        [
            "max_batch_size: 8",
            _tensors("input", ("INPUT", "INT32", 1)),
            _tensors("output", ("OUTPUT", "INT32", 1)),
            "sequence_batching {",
            *controls,
            "}",
        ]
    )


def _dynamic_sequence(id_type: str) -> str:
    flags = [_CONTROL.format(name, _FLAG) for name in ("START", "END", "READY")]
    return _sequence(_OLDEST, *flags, _CONTROL.format("CORRID", f"data_type: TYPE_{id_type}"))


@dataclass(frozen=True, slots=True)
class ExampleModel:
    """A model: its config without name and backend, and its source.

    Attributes:
        name: Name.
        config: config.pbtxt without name and backend.
        source: model.py without imports; empty for a model that has none.
        backend: Backend, or ensemble.
        labels: Lines of labels.txt; empty for a model that has none.
    """

    name: str
    config: str
    source: str = ""
    backend: str = "python"
    labels: tuple[str, ...] = ()

    def write(self, repository: Path) -> None:
        """Write the model into a repository."""
        version = repository / self.name / "1"
        version.mkdir(parents=True)
        kind = "platform" if self.backend == "ensemble" else "backend"
        head = f'name: "{self.name}"\n{kind}: "{self.backend}"\n'
        (version.parent / "config.pbtxt").write_text(head + self.config)
        if self.source:
            imports = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"
            (version / "model.py").write_text(imports + self.source)
        if self.labels:
            (version.parent / "labels.txt").write_text("\n".join(self.labels) + "\n")


def _add_sub(name: str, datatype: str) -> ExampleModel:
    config = ["max_batch_size: 8", _pair("input", datatype), _pair("output", datatype)]
    return ExampleModel(name, "\n".join(config), _ADD_SUB)


def _identity(name: str, datatype: str) -> ExampleModel:
    tensors = [
        _tensors("input", ("INPUT0", datatype, -1)),
        _tensors("output", ("OUTPUT0", datatype, -1)),
    ]
    return ExampleModel(name, "\n".join(["max_batch_size: 8", *tensors]), _IDENTITY)


# Those that NVIDIA's example repository holds; the model control examples count them.
REPOSITORY = (
    _add_sub("simple", "INT32"),
    _add_sub("simple_int8", "INT8"),
    _add_sub("simple_string", "STRING"),
    _identity("simple_identity", "STRING"),
    ExampleModel(
        "simple_sequence",
        _sequence(*(_CONTROL.format(name, _FLAG) for name in ("START", "READY"))),
        _SEQUENCE,
    ),
    ExampleModel("simple_dyna_sequence", _dynamic_sequence("UINT64"), _SEQUENCE),
    ExampleModel(
        "densenet_onnx",
        'input { name: "data_0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }\n'
        + _tensors("output", ("fc6_1", "FP32", 1000)),
        _CLASSIFIER,
    ),
    _identity("inception_graphdef", "FP32"),
)
# What single examples need besides.
EXTRAS = (
    ExampleModel("simple_string_dyna_sequence", _dynamic_sequence("STRING"), _SEQUENCE),
    _identity("custom_identity_int32", "INT32"),
    ExampleModel(
        "repeat_int32",
        _tensors("input", ("IN", "INT32", -1), ("DELAY", "UINT32", -1), ("WAIT", "UINT32", 1))
        + "\n"
        + _tensors("output", ("OUT", "INT32", 1), ("IDX", "UINT32", 1))
        + "\nmodel_transaction_policy { decoupled: true }",
        _REPEAT,
    ),
    ExampleModel(
        "preprocess_inception_ensemble",
        "max_batch_size: 8\n"
        + _tensors("input", ("INPUT", "STRING", 1))
        + "\n"
        + _tensors("output", ("OUTPUT", "FP32", 5))
        + """
ensemble_scheduling {
  step {
    model_name: "image_scores" model_version: -1
    input_map { key: "IMAGE" value: "INPUT" } output_map { key: "SCORES" value: "scores" }
  }
  step {
    model_name: "image_classes" model_version: -1
    input_map { key: "SCORES" value: "scores" } output_map { key: "CLASSES" value: "OUTPUT" }
  }
}""",
        backend="ensemble",
    ),
    ExampleModel(
        "image_scores",
        "max_batch_size: 8\n"
        + _tensors("input", ("IMAGE", "STRING", 1))
        + "\n"
        + _tensors("output", ("SCORES", "FP32", 5)),
        _PREPROCESS,
    ),
    ExampleModel(
        "image_classes",
        "max_batch_size: 8\n"
        + _tensors("input", ("SCORES", "FP32", 5))
        + '\noutput { name: "CLASSES" data_type: TYPE_FP32 dims: [ 5 ] '
        + 'label_filename: "labels.txt" }',
        _CLASSIFY,
        labels=("CAR", "MUG", "VULTURE", "HILL", "LAKE"),
    ),
)
