# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What tells requests apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.request import Extent, InferenceRequest, Tensor, tensor_from_numpy
from deployments.response_cache.key import KEY_BYTES, request_key


def tensor(name="X", values=(1, 2, 3, 4, 5, 6), shape=(2, 3), dtype=np.int32) -> Tensor:
    return tensor_from_numpy(name, np.array(values, dtype).reshape(shape))


def request(**fields: object) -> InferenceRequest:
    return InferenceRequest("m", **({"inputs": [tensor()]} | fields))


def test_order_of_inputs_and_what_the_answer_does_not_depend_on_leave_the_key_alone():
    one = request(inputs=[tensor("A"), tensor("B")])
    other = request(inputs=[tensor("B"), tensor("A")], id="7", priority=3, timeout_us=9)
    assert request_key(b"i", one) == request_key(b"i", other)
    assert len(request_key(b"i", one) or b"") == KEY_BYTES


@pytest.mark.parametrize(
    "other",
    [
        request(inputs=[tensor(shape=(3, 2))]),
        request(inputs=[tensor(dtype=np.uint32)]),
        request(inputs=[tensor(values=(1, 2, 3, 4, 5, 7))]),
        request(inputs=[tensor("Y")]),
        request(outputs=["OUT"]),
        request(parameters={"temperature": 0.5}),
        request(pins={"callee": 2}),
    ],
    ids=["shape", "datatype", "bytes", "name", "outputs", "parameters", "pins"],
)
def test_whatever_can_change_the_answer_changes_the_key(other):
    assert request_key(b"i", request()) != request_key(b"i", other)


def test_pins_to_the_same_versions_are_one_key_in_whatever_order_and_none_are_no_pins():
    one, other = request(pins={"a": 1, "b": 2}), request(pins={"b": 2, "a": 1})
    assert request_key(b"i", one) == request_key(b"i", other)
    assert request_key(b"i", request(pins={})) == request_key(b"i", request())


def test_another_generation_of_the_model_has_other_keys():
    assert request_key(b"i", request()) != request_key(b"j", request())


def test_requests_in_clients_shared_memory_have_no_key():
    assert request_key(b"i", request(regions={"OUT": Extent("region", 0, 4)})) is None


@given(st.lists(st.binary(max_size=8), min_size=2, max_size=2, unique=True))
def test_bytes_cannot_move_from_one_input_to_another_under_one_key(parts):
    def split(first: bytes, second: bytes) -> InferenceRequest:
        inputs = [
            Tensor(name, "UINT8", (len(data),), memoryview(data))
            for name, data in (("A", first), ("B", second))
        ]
        return request(inputs=inputs)

    first, second = parts
    assert request_key(b"i", split(first, second)) != request_key(b"i", split(second, first))
