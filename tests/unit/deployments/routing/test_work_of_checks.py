# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a check costs grows with what was sent, and no faster; its message does not grow at all."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.api.request import EMPTY, InferenceRequest, Tensor, count_up_to
from deployments.routing.request_check import RequestChecker

PLAIN = ModelConfig(
    name="m",
    input=(ModelInput("A", "INT32", (2, 3)), ModelInput("B", "BYTES", (-1,))),
    output=(ModelOutput("C", "INT32", (2, 3)), ModelOutput("D", "INT32", (2, 3))),
)
BY_VALUE = ModelConfig(
    name="m", max_batch_size=4, input=(ModelInput("A", "INT32", (-1,), is_shape_tensor=True),)
)
# Their product would have a hundred million bits, and take minutes.
HUGE = (2**62,) * 2_000_000


class CountedName(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class CountedDim(int):
    """A dim that counts how often dims are multiplied."""

    multiplications = 0

    def __rmul__(self, other: int) -> int:
        CountedDim.multiplications += 1
        return int(self) * int(other)


def _comparisons(names: list[str]) -> int:
    inputs = [Tensor(CountedName(name), "INT32", (2, 3), EMPTY) for name in names]
    CountedName.comparisons = 0
    with pytest.raises(InvalidArgumentError):
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=inputs))
    return CountedName.comparisons


@pytest.mark.parametrize("is_twice", [False, True])
def test_names_of_twice_as_many_inputs_are_compared_twice_as_often(*, is_twice: bool) -> None:
    few, many = ([f"i{at}" for at in range(count)] for count in (500, 1000))
    last = ["i1"] if is_twice else []
    assert _comparisons(many + last) <= 2 * _comparisons(few + last) + 100
    assert _comparisons(many + last) <= 3 * len(many)


def test_names_of_many_inputs_are_told_by_the_first_and_their_number() -> None:
    inputs = [Tensor(f"i{at}" * 1000, "INT32", (1,), EMPTY) for at in range(10_000)]
    with pytest.raises(InvalidArgumentError) as caught:
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=inputs))
    message = caught.value.message
    assert message.startswith(
        "[request id: <id_unknown>] expected 2 inputs but got 10000 inputs for model 'm'. Got "
        "input(s) ['i0i0i0"
    )
    assert "... and 9984 more], but missing required input(s) ['A','B']." in message
    assert len(message) < 6000


def test_the_first_input_that_comes_twice_is_named() -> None:
    inputs = [Tensor(name, "INT32", (1,), EMPTY) for name in ("x", "y", "z", "y", "x")]
    with pytest.raises(InvalidArgumentError, match="input 'y' already exists in request"):
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=inputs))


def test_the_first_output_that_comes_twice_is_named() -> None:
    request = InferenceRequest("m", outputs=["C", "D"] + ["D", "C"] * 100_000)
    with pytest.raises(InvalidArgumentError, match="output 'D' already exists in request"):
        RequestChecker(PLAIN).check(request)


def test_dims_are_multiplied_until_it_is_known_that_there_are_too_many() -> None:
    CountedDim.multiplications = 0
    assert count_up_to([CountedDim(2)] * 10_000, 2**63 - 1) is None
    assert CountedDim.multiplications == 63


@pytest.mark.parametrize(
    ("shape", "most", "count"),
    [
        ((), 10, 1),
        ((2, 5), 10, 10),
        ((2, 6), 10, None),
        ((2**62, 2**62, 0), 10, 0),
        ((-1, 3), 10, -3),
        ((-1, 30), 10, None),
        ((1,) * 100_000, 1, 1),
    ],
)
def test_elements_are_counted_up_to_a_limit(
    shape: tuple[int, ...], most: int, count: int | None
) -> None:
    assert count_up_to(shape, most) == count


TEXT = ModelConfig(name="m", max_batch_size=4, input=(ModelInput("A", "BYTES", (-1,) * 2_000_000),))
NO_BATCH = (0, *HUGE)


@pytest.mark.parametrize(
    ("config", "tensor", "complaint"),
    [
        (BY_VALUE, Tensor("A", "INT32", HUGE, EMPTY), "byte size for tensor 'A' exceeds"),
        (TEXT, Tensor("A", "BYTES", NO_BATCH, EMPTY), "element count for tensor 'A' exceeds"),
    ],
    ids=["shape tensor", "strings without a batch"],
)
def test_dims_without_end_are_refused_at_once(
    config: ModelConfig, tensor: Tensor, complaint: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        RequestChecker(config).check(InferenceRequest("m", inputs=[tensor]))
    assert caught.value.message.startswith(complaint)


def test_a_shape_of_many_dims_is_told_by_its_first_ones() -> None:
    tensor = Tensor("A", "INT32", HUGE, EMPTY)
    other = Tensor("B", "BYTES", (0,), EMPTY)
    with pytest.raises(InvalidArgumentError) as caught:
        RequestChecker(PLAIN).check(InferenceRequest("m", inputs=[tensor, other]))
    message = caught.value.message
    assert len(message) < 2000
    assert "... and 1999968 more]" in message
