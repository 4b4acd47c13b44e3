# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that Triton's own tests ask for, as models of our own."""

from tests.conformance.example_models import EXTRAS, REPOSITORY, ExampleModel

_EXAMPLES = {model.name: model for model in REPOSITORY + EXTRAS}

_ADD_SUB = _EXAMPLES["simple"]

# Longer than what the tests sleep between two requests, shorter than they wait for an answer.
_SLOW = """
import time

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(6)
        return [self.answer(*(each.as_numpy() for each in r.inputs())) for r in requests]

    def answer(self, a, b):
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]
        )
"""

_STRINGS_TO_INTEGERS = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(*(each.as_numpy() for each in r.inputs())) for r in requests]

    def answer(self, a, b):
        a, b = a.astype(np.int32), b.astype(np.int32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]
        )
"""

_ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor(t.name().replace("IN", "OUT"), t.as_numpy()) for t in r.inputs()]
            )
            for r in requests
        ]
"""

_ONE = """
class TritonPythonModel:
    def execute(self, requests):
        one = np.array([1], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", one)]) for _ in requests]
"""

_PARAMETERS = """
import json

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(json.loads(request.parameters())) for request in requests]

    def answer(self, parameters):
        sides = (("key", list(parameters)), ("value", list(parameters.values())))
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.asarray(side, dtype=object)) for name, side in sides]
        )
"""

# Answers PROMPT: once, or with STREAM as often as the parameter REPETITION says, DELAY seconds
# apart; FAIL_LAST makes an error of the last response, OUTPUT_0_DIM an empty tensor of the text.
_STREAM = """
import json
import time

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.answer(request)

    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        parameters = json.loads(request.parameters())
        text = np.array([]) if parameters.get("OUTPUT_0_DIM") else given["PROMPT"]
        response = pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", text)])
        sender, final = request.get_response_sender(), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if not given["STREAM"].any():
            sender.send(response, flags=final)
            return
        for _ in range(parameters.get("REPETITION", 1)):
            time.sleep(parameters.get("DELAY", 0))
            sender.send(response)
        if parameters.get("FAIL_LAST"):
            error = pb_utils.TritonError("An Error Occurred")
            sender.send(pb_utils.InferenceResponse(error=error), flags=final)
        else:
            sender.send(flags=final)
"""

_BATCHES_OF_8 = "max_batch_size: 8"


def _tensor(kind: str, name: str, datatype: str, *dims: int, optional: bool = False) -> str:
    flag = " optional: true" if optional else ""
    shape = ", ".join(str(dim) for dim in dims)
    return f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {shape} ]{flag} }}'


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _zero(
    name: str, datatype: str, *dims: int, count: int = 1, more: str = _BATCHES_OF_8
) -> ExampleModel:
    """Return a model whose outputs are its inputs."""
    kinds = (("input", "INPUT"), ("output", "OUTPUT"))
    tensors = [
        _tensor(kind, f"{prefix}{index}", datatype, *dims)
        for kind, prefix in kinds
        for index in range(count)
    ]
    return ExampleModel(name, _lines(more, *tensors), backend="identity")


_OPTIONAL_PAIR = _lines(
    "max_batch_size: 4",
    *(_tensor("input", f"INPUT{index}", "FP32", 1, optional=True) for index in (0, 1)),
    *(_tensor("output", f"OUTPUT{index}", "FP32", 1) for index in (0, 1)),
)


def _step(model: str, inputs: dict[str, str], outputs: dict[str, str]) -> str:
    maps = [
        f'{kind}_map {{ key: "{key}" value: "{value}" }}'
        for kind, pairs in (("input", inputs), ("output", outputs))
        for key, value in pairs.items()
    ]
    return _lines(f'step {{ model_name: "{model}" model_version: -1', *maps, "}")


def _ensemble(name: str, head: str, *steps: str) -> ExampleModel:
    config = _lines(head, "ensemble_scheduling {", *steps, "}")
    return ExampleModel(name, config, backend="ensemble")


_BOTH_IN = {"INPUT0": "INPUT0", "INPUT1": "INPUT1"}
_BOTH_OUT = {"OUTPUT0": "OUTPUT0", "OUTPUT1": "OUTPUT1"}

# qa/L0_http
_HTTP = (
    _zero("onnx_zero_1_float32", "FP32", -1),
    _zero("onnx_zero_1_float16", "FP16", -1, -1),
    _zero("onnx_zero_1_object", "STRING", -1),
    _zero("onnx_zero_1_object_1_element", "STRING", 1),
    _zero("onnx_zero_3_float32", "FP32", -1, count=3),
    _zero(
        "onnx_zero_1_float32_queue",
        "FP32",
        -1,
        more=_lines(
            _BATCHES_OF_8,
            "dynamic_batching { max_queue_delay_microseconds: 1000000 preferred_batch_size: [ 8 ]",
            "default_queue_policy { max_queue_size: 1 } }",
        ),
    ),
    _zero("simple_identity_int64", "INT64", -1),
    ExampleModel(
        "mock_llm",
        _lines(
            "model_transaction_policy { decoupled: true }",
            _tensor("input", "PROMPT", "STRING", 1, 1),
            _tensor("input", "STREAM", "BOOL", 1, 1),
            _tensor("input", "input_ids", "INT32", 1, -1, optional=True),
            _tensor("output", "TEXT", "STRING", 1, -1),
        ),
        _STREAM,
    ),
)
# qa/L0_grpc, L0_shared_memory, L0_input_validation
_OTHERS = (
    _zero("string_identity", "STRING", -1, more="max_batch_size: 0"),
    ExampleModel("python_int32_int32_int32", _ADD_SUB.config, _ADD_SUB.source),
    ExampleModel(
        "input_all_required",
        _lines(
            *(_tensor("input", f"INPUT{index}", "FP32", -1) for index in range(3)),
            _tensor("output", "OUTPUT0", "FP32", 1),
        ),
        _ONE,
    ),
    ExampleModel(
        "input_optional",
        _lines(
            *(_tensor("input", f"INPUT{i}", "FP32", -1, optional=i == 3) for i in range(4)),
            _tensor("output", "OUTPUT0", "FP32", 1),
        ),
        _ONE,
    ),
    ExampleModel(
        "input_all_optional",
        _lines(
            *(_tensor("input", f"INPUT{i}", "FP32", -1, optional=True) for i in range(3)),
            _tensor("output", "OUTPUT0", "FP32", 1),
        ),
        _ONE,
    ),
    _zero(
        "pt_identity",
        "FP32",
        8,
        more=_lines(_BATCHES_OF_8, "dynamic_batching { max_queue_delay_microseconds: 1000000 }"),
    ),
    ExampleModel(
        "onnx_object_int32_int32",
        _lines(
            _BATCHES_OF_8,
            *(_tensor("input", f"INPUT{index}", "STRING", 16) for index in (0, 1)),
            *(_tensor("output", f"OUTPUT{index}", "INT32", 16) for index in (0, 1)),
        ),
        _STRINGS_TO_INTEGERS,
    ),
)
# qa/L0_parameters
_PARAMETER_MODELS = (
    _zero("identity", "FP32", 1, more="max_batch_size: 0"),
    ExampleModel(
        "parameter",
        _lines(
            _tensor("input", "INPUT0", "FP32", 1),
            _tensor("output", "key", "STRING", -1),
            _tensor("output", "value", "STRING", -1),
        ),
        _PARAMETERS,
    ),
    _ensemble(
        "ensemble",
        _lines(
            _tensor("input", "INPUT0", "FP32", 1),
            _tensor("output", "key", "STRING", -1),
            _tensor("output", "value", "STRING", -1),
        ),
        _step("identity", {"INPUT0": "INPUT0"}, {"OUTPUT0": "OUTPUT0"}),
        _step("parameter", {"INPUT0": "OUTPUT0"}, {"key": "key", "value": "value"}),
    ),
    _zero("identity_fp32", "FP32", -1, more="max_batch_size: 64"),
    _zero("identity_bytes", "STRING", -1, more="max_batch_size: 64"),
)
# qa/L0_optional_input
_OPTIONAL = (
    ExampleModel(
        "identity_2_float32",
        _lines(
            _OPTIONAL_PAIR,
            "dynamic_batching { preferred_batch_size: [ 4 ]",
            "max_queue_delay_microseconds: 5000000 }",
        ),
        backend="identity",
    ),
    ExampleModel("optional_identity", _OPTIONAL_PAIR, _ECHO),
    _ensemble(
        "ensemble_identity_2_float32",
        _OPTIONAL_PAIR,
        _step("identity_2_float32", _BOTH_IN, _BOTH_OUT),
    ),
    _ensemble(
        "pipeline_identity_2_float32",
        _OPTIONAL_PAIR,
        _step("identity_2_float32", _BOTH_IN, {"OUTPUT0": "between"}),
        _step("identity_2_float32", {"INPUT1": "between"}, _BOTH_OUT),
    ),
    _ensemble(
        "optional_connecting_tensor",
        _OPTIONAL_PAIR,
        _step("optional_identity", _BOTH_IN, {"OUTPUT0": "between0", "OUTPUT1": "between1"}),
        _step("optional_identity", {"INPUT0": "between0", "INPUT1": "between1"}, _BOTH_OUT),
    ),
)

MODELS = _EXAMPLES | {
    model.name: model for model in (*_HTTP, *_OTHERS, *_PARAMETER_MODELS, *_OPTIONAL)
}
# What stands in for simple where a request has to take its time.
MODELS["slow simple"] = ExampleModel("simple", _ADD_SUB.config, _SLOW)
