# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.framework.parameters import Parameters


def parameters(**values):
    return Parameters(ModelConfig("m", parameters=values))


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False), ("0", False)],
)
def test_a_flag_is_written_as_in_triton(text, value):
    assert parameters(K=text).flag("K", not value) is value


def test_what_is_not_set_is_the_default():
    unset = parameters()
    assert unset.flag("K", None) is None
    assert unset.integer("K", 3) == 3
    assert unset.number("K", 0.5) == 0.5
    assert unset.choice("K", {"a": 1}, 0) == 0


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda p: p.flag("K", False), "failed to convert 'yes' to boolean: "),
        (lambda p: p.integer("K", 0), "failed to convert 'yes' to integral number: "),
        (lambda p: p.number("K", 0), "failed to convert 'yes' to double: "),
        (lambda p: p.choice("K", {"a": 1, "b": 2}, 0), "unknown value 'yes': "),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_place(read, says):
    with pytest.raises(InvalidArgumentError) as raised:
        read(parameters(K="yes"))
    assert raised.value.message.startswith(says + "parameter K of model 'm' must be ")


@given(st.integers())
def test_integers_are_read_as_written(number):
    assert parameters(K=str(number)).integer("K", None) == number


@given(st.integers(max_value=0))
def test_an_integer_below_the_least_is_refused(number):
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        parameters(K=str(number)).integer("K", None, least=1)


@given(st.floats(allow_nan=False))
def test_numbers_are_read_as_written(number):
    assert parameters(K=repr(number)).number("K", None) == number
