# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InvalidArgumentError, Phase
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import InferenceRequest, Tensor, tensor_from_numpy
from deployments.routing.request_check import RequestChecker

BATCHING = ModelConfig(
    name="m",
    max_batch_size=8,
    input=(ModelInput("A", "INT32", (16,)), ModelInput("B", "FP32", (-1,), optional=True)),
    output=(ModelOutput("C", "INT32", (16,)),),
)
PLAIN = ModelConfig(
    name="m",
    input=(ModelInput("A", "INT32", (2, 3)), ModelInput("S", "BYTES", (-1,))),
    output=(ModelOutput("C", "INT32", (2, 3)),),
)
RESHAPING = ModelConfig(
    name="m",
    max_batch_size=4,
    input=(ModelInput("A", "FP32", (-1, 4), reshape=(4, -1)),),
)


def _a(batch: int = 1, width: int = 16, dtype: type = np.int32) -> Tensor:
    return tensor_from_numpy("A", np.zeros((batch, width), dtype=dtype))


def _strings(*elements: bytes) -> Tensor:
    return Tensor("S", "BYTES", (len(elements),), memoryview(serialize_bytes(elements)))


def _matrix() -> Tensor:
    return tensor_from_numpy("A", np.zeros((2, 3), np.int32))


@pytest.mark.parametrize(
    "inputs",
    [
        [_a()],
        [_a(8)],
        [_a(2), tensor_from_numpy("B", np.zeros((2, 5), np.float32))],
    ],
    ids=["one", "full batch", "with optional"],
)
def test_well_formed_batch_passes(inputs: list[Tensor]) -> None:
    RequestChecker(BATCHING).check(InferenceRequest("m", inputs=inputs, outputs=["C"]))


CASES = {
    "unknown output": (
        InferenceRequest("m", inputs=[_a()], outputs=["X"]),
        "unexpected inference output 'X' for model 'm'",
    ),
    "output twice": (
        InferenceRequest("m", inputs=[_a()], outputs=["C", "C"]),
        "[request id: <id_unknown>] output 'C' already exists in request",
    ),
    "input twice": (
        InferenceRequest("m", inputs=[_a(), _a()]),
        "[request id: <id_unknown>] input 'A' already exists in request",
    ),
    "missing": (
        InferenceRequest("m", id="7"),
        "[request id: 7] expected number of inputs between 1 and 2 but got 0 inputs for model "
        "'m'. Got input(s) [], but missing required input(s) ['A']. Please provide all required "
        "input(s).",
    ),
    "datatype": (
        InferenceRequest("m", inputs=[_a(dtype=np.int64)]),
        "[request id: <id_unknown>] inference input 'A' data-type is 'INT64', but model 'm' "
        "expects 'INT32'",
    ),
    "no batch dimension": (
        InferenceRequest("m", inputs=[Tensor("A", "INT32", ())]),
        "[request id: <id_unknown>] input 'A' has no shape but model requires batch dimension for "
        "'m'",
    ),
    "batch sizes differ": (
        InferenceRequest("m", inputs=[_a(2), tensor_from_numpy("B", np.zeros((1, 5), np.float32))]),
        "[request id: <id_unknown>] input 'B' batch size does not match other inputs for 'm'",
    ),
    "batch too large": (
        InferenceRequest("m", inputs=[_a(9)]),
        "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'm'",
    ),
    "size": (
        InferenceRequest("m", inputs=[Tensor("A", "INT32", (1, 16), memoryview(bytes(60)))]),
        "[request id: <id_unknown>] input byte size mismatch for input 'A' for model 'm'. "
        "Expected 64, got 60",
    ),
    "negative dimension": (
        InferenceRequest("m", inputs=[Tensor("A", "INT32", (1, -1), memoryview(bytes(60)))]),
        "[request id: <id_unknown>] All input dimensions should be specified for input 'A' for "
        "model 'm', got [1,-1]",
    ),
    "wildcard where any is taken": (
        InferenceRequest("m", inputs=[_a(), Tensor("B", "FP32", (1, -1), memoryview(bytes(20)))]),
        "[request id: <id_unknown>] All input dimensions should be specified for input 'B' for "
        "model 'm', got [1,-1]",
    ),
    "batch of none": (
        InferenceRequest("m", inputs=[_a(0)]),
        "[request id: <id_unknown>] input byte size mismatch for input 'A' for model 'm'. "
        "Expected 64, got 0",
    ),
    "other negative dimension": (
        InferenceRequest("m", inputs=[Tensor("A", "INT32", (1, -16), memoryview(bytes(64)))]),
        "[request id: <id_unknown>] unexpected shape for input 'A' for model 'm'. Expected "
        "[-1,16], got [1,-16]. NOTE: Setting a non-zero max_batch_size in the model config "
        "requires a batch dimension to be prepended to each input shape. If you want to specify "
        "the full shape including the batch dim in your input dims config, try setting "
        "max_batch_size to zero. See the model configuration docs for more info on max_batch_size.",
    ),
    "negative batch": (
        InferenceRequest("m", inputs=[Tensor("A", "FP32", (-1, 16), memoryview(bytes(64)))]),
        "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'm'",
    ),
    "negative dimension where any is taken": (
        InferenceRequest("m", inputs=[_a(), Tensor("B", "FP32", (1, -5), memoryview(bytes(20)))]),
        "tensor 'B' contains an invalid dimension [1,-5]",
    ),
    "more bytes than can be counted": (
        InferenceRequest("m", inputs=[_a(), Tensor("B", "FP32", (1, 2**62), memoryview(b""))]),
        "byte size for tensor 'B' exceeds maximum size of 9223372036854775807",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("request_", "text"), CASES.values(), ids=CASES.keys())
def test_malformed_request_gets_tritons_text(request_: InferenceRequest, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RequestChecker(BATCHING).check(request_)
    assert caught.value.message == text


def test_wrong_shape_names_both_shapes_and_explains_the_batch_dimension() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RequestChecker(BATCHING).check(InferenceRequest("m", inputs=[_a(width=15)]))
    assert caught.value.message.startswith(
        "[request id: <id_unknown>] unexpected shape for input 'A' for model 'm'. Expected [-1,16],"
        " got [1,15]. NOTE: Setting a non-zero max_batch_size"
    )


def test_missing_input_of_a_model_without_optional_inputs_expects_an_exact_count() -> None:
    with pytest.raises(InvalidArgumentError, match="expected 2 inputs but got 1 inputs for model"):
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=[_matrix()]))


def test_unknown_input_in_place_of_a_known_one_is_refused() -> None:
    inputs = [_matrix(), tensor_from_numpy("Z", np.zeros(1, np.int32))]
    with pytest.raises(InvalidArgumentError, match=r"input .Z.|missing required"):
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=inputs))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor("S", "BYTES", (2,), _strings(b"a").data), "expected 2 string elements for"),
        (Tensor("S", "BYTES", (1,), _strings(b"a", b"b").data), "unexpected number of string"),
        (Tensor("S", "BYTES", (1,), memoryview(b"\1\0")), "incomplete string length indicator"),
        (
            Tensor("S", "BYTES", (1,), memoryview(serialize_bytes([b"a"]) + b"z")),
            "incomplete string length indicator",
        ),
        (Tensor("S", "BYTES", (1,), memoryview(b"\x09\0\0\0a")), "incomplete string data"),
    ],
    ids=["too few", "too many", "length cut", "surplus byte", "element cut"],
)
def test_malformed_bytes_tensor_is_refused(tensor: Tensor, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text) as caught:
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=[_matrix(), tensor]))
    # Triton looks into the strings of what passes its other checks only when it batches.
    is_late = text == "incomplete string data"
    assert caught.value.phase is (Phase.BATCH if is_late else Phase.UNSPECIFIED)


def test_reshape_replaces_the_shape_and_fills_wildcards_in_order() -> None:
    tensor = tensor_from_numpy("A", np.zeros((2, 7, 4), np.float32))
    RequestChecker(RESHAPING).check(InferenceRequest("m", inputs=[tensor]))
    assert tensor.shape == (2, 4, 7)


@given(
    shape=st.lists(st.integers(-2, 2**40), max_size=4).map(tuple),
    size=st.integers(0, 200),
    datatype=st.sampled_from(["INT32", "FP32", "BYTES"]),
    name=st.sampled_from(["A", "B", "S", ""]),
)
def test_any_tensor_passes_or_is_an_invalid_argument(
    shape: tuple[int, ...], size: int, datatype: str, name: str
) -> None:
    tensor = Tensor(name, datatype, shape, memoryview(bytes(size)))
    for config in (BATCHING, PLAIN, RESHAPING):
        try:
            RequestChecker(config).check(InferenceRequest("m", inputs=[tensor]))
        except InvalidArgumentError:
            continue
        assert name in {each.name for each in config.input}


_TENSORS = st.builds(
    lambda name, batch, width, dtype: tensor_from_numpy(name, np.zeros((batch, width), dtype)),
    st.sampled_from(("INPUT0", "INPUT1")),
    st.integers(1, 3),
    st.sampled_from((15, 16)),
    st.sampled_from((np.int32, np.float32)),
)


@given(
    st.lists(
        st.tuples(
            st.lists(_TENSORS, max_size=3),
            st.lists(st.sampled_from(("OUTPUT0", "OUTPUT1", "X")), max_size=2),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_what_passed_before_makes_no_difference(
    given_requests: list[tuple[list[Tensor], list[str]]],
) -> None:
    config = ModelConfig(
        "m",
        max_batch_size=2,
        input=(ModelInput("INPUT0", "INT32", (16,)), ModelInput("INPUT1", "INT32", (-1,))),
        output=(ModelOutput("OUTPUT0", "INT32", (16,)), ModelOutput("OUTPUT1", "INT32", (16,))),
    )
    used = RequestChecker(config)
    used.check(InferenceRequest("m", 1, "", [_named("INPUT0"), _named("INPUT1")]))
    for inputs, outputs in given_requests:
        request_ = InferenceRequest("m", 1, "", inputs, outputs)
        assert _refusal_of(used, request_) == _refusal_of(RequestChecker(config), request_)


def _named(name: str) -> Tensor:
    return tensor_from_numpy(name, np.zeros((1, 16), np.int32))


def _refusal_of(checker: RequestChecker, request_: InferenceRequest) -> str:
    try:
        checker.check(request_)
    except InvalidArgumentError as error:
        return error.message
    return ""


def test_strings_are_checked_although_a_request_of_their_size_passed() -> None:
    checker = RequestChecker(ModelConfig("m", input=(ModelInput("S", "BYTES", (1,)),)))
    checker.check(
        InferenceRequest("m", 1, "", [Tensor("S", "BYTES", (1,), memoryview(b"\1\0\0\0a"))])
    )
    with pytest.raises(InvalidArgumentError, match="incomplete string"):
        checker.check(
            InferenceRequest("m", 1, "", [Tensor("S", "BYTES", (1,), memoryview(b"\2\0\0\0a"))])
        )


SHAPES = ModelConfig(
    name="m",
    max_batch_size=4,
    input=(
        ModelInput("S", "INT32", (1,), is_shape_tensor=True),
        ModelInput("X", "FP32", (-1,)),
    ),
)


def test_shape_tensor_has_no_batch_dimension_and_comes_last() -> None:
    checker = RequestChecker(SHAPES)
    for _ in range(2):
        size = tensor_from_numpy("S", np.array([3], np.int32))
        rows = tensor_from_numpy("X", np.zeros((2, 5), np.float32))
        request = InferenceRequest("m", inputs=[size, rows])
        checker.check(request)
        assert [each.name for each in request.inputs] == ["X", "S"]
    many = tensor_from_numpy("X", np.zeros((5, 5), np.float32))
    with pytest.raises(InvalidArgumentError, match="batch-size must be <= 4"):
        checker.check(InferenceRequest("m", inputs=[size, many]))
