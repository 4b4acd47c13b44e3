# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests may share a batch."""

from backends.api.model_config import DynamicBatching, ModelConfig, ModelInput
from backends.api.request import InferenceRequest, Tensor
from deployments.scheduling.default_scheduler import DefaultScheduler
from deployments.scheduling.dynamic_batcher import DynamicBatcher
from deployments.scheduling.factory import make_scheduler, make_signature
from deployments.scheduling.signature import signature_of


def config(*inputs: ModelInput, **fields: object) -> ModelConfig:
    return ModelConfig("m", max_batch_size=8, input=inputs, **fields)


def request(*tensors: Tensor) -> InferenceRequest:
    return InferenceRequest("m", inputs=list(tensors))


def tensor(name: str, *shape: int, data: bytes = b"") -> Tensor:
    return Tensor(name, "FP32", shape, memoryview(data))


def test_fixed_shapes_need_no_signature():
    assert signature_of(config(ModelInput("a", "FP32", (4,)))) is None


def test_ragged_inputs_need_no_signature():
    assert signature_of(config(ModelInput("a", "FP32", (-1,), allow_ragged_batch=True))) is None


def test_a_variable_input_is_compared_without_its_batch_dimension():
    signature = signature_of(config(ModelInput("a", "FP32", (-1,))))
    assert signature is not None
    assert signature(request(tensor("a", 1, 4))) == signature(request(tensor("a", 3, 4)))
    assert signature(request(tensor("a", 1, 4))) != signature(request(tensor("a", 1, 5)))


def test_only_variable_inputs_are_compared_in_any_order():
    signature = signature_of(config(ModelInput("a", "FP32", (-1,)), ModelInput("b", "FP32", (2,))))
    assert signature is not None
    one = signature(request(tensor("a", 1, 4), tensor("b", 1, 2)))
    assert one == signature(request(tensor("b", 2, 2), tensor("a", 2, 4)))


def test_requests_with_other_optional_inputs_do_not_share_a_batch():
    inputs = (ModelInput("a", "FP32", (2,)), ModelInput("b", "FP32", (2,), optional=True))
    signature = signature_of(config(*inputs))
    assert signature is not None
    both = signature(request(tensor("a", 1, 2), tensor("b", 1, 2)))
    assert both != signature(request(tensor("a", 1, 2)))


def test_shape_tensors_are_compared_by_value():
    signature = signature_of(config(ModelInput("s", "INT32", (1,), is_shape_tensor=True)))
    assert signature is not None
    assert signature(request(tensor("s", 1, data=b"1234"))) != signature(
        request(tensor("s", 1, data=b"1235"))
    )


def test_the_config_chooses_the_scheduler():
    batching = config(ModelInput("a", "FP32", (-1,)), dynamic_batching=DynamicBatching())
    assert isinstance(make_scheduler(batching), DynamicBatcher)
    assert make_signature(batching) is not None
    plain = config(ModelInput("a", "FP32", (-1,)))
    assert isinstance(make_scheduler(plain), DefaultScheduler)
    assert make_signature(plain) is None
