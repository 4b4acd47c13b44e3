# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Configs checked and completed by signatures that tell everything, or not."""

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.config.pbtxt import parse_pbtxt
from backends.framework.auto_complete import completed
from backends.framework.signature import Signature, TensorInfo
from backends.framework.validation import Rules, validate

RULES = Rules({"FP32", "INT32"})
BOTH = Signature(
    (TensorInfo("A", "FP32", (-1, 3)), TensorInfo("B", "FP32", (-1, 3))),
    (TensorInfo("Y", "FP32", (-1, 3)),),
    most_items=2,
)
NAMES_ONLY = Signature((TensorInfo("A"), TensorInfo("B")), (TensorInfo("Y"),))
INPUT = 'input {{ name: "{}" data_type: {} dims: [ 3 ] }} '
OUTPUT = 'output { name: "Y" data_type: TYPE_FP32 dims: [ 3 ] } '


def config(text=""):
    return parse_pbtxt(f'name: "m" {text}', "config.pbtxt")


def one_input(name="A", datatype="TYPE_FP32"):
    return config("max_batch_size: 4 " + INPUT.format(name, datatype) + OUTPUT)


def test_what_a_signature_leaves_open_is_not_checked():
    both = INPUT.format("A", "TYPE_INT32") + INPUT.format("B", "TYPE_FP32")
    validate(config(both + OUTPUT), NAMES_ONLY, RULES)


def test_a_model_may_take_fewer_inputs_than_it_has_where_its_framework_allows():
    with pytest.raises(InvalidArgumentError, match="configuration expects 1 inputs, model provid"):
        validate(one_input(), BOTH, RULES)
    validate(one_input(), BOTH, Rules({"FP32"}, needs_every_input=False))


def test_it_never_takes_more():
    three = config("".join(INPUT.format(name, "TYPE_FP32") for name in "ABC") + OUTPUT)
    with pytest.raises(InvalidArgumentError, match="expects 3 inputs, model provides at most 2"):
        validate(three, BOTH, Rules({"FP32"}, needs_every_input=False))


def test_a_datatype_that_the_framework_lacks_is_named():
    with pytest.raises(InternalError, match="unsupported datatype TYPE_BOOL for input 'A'"):
        validate(one_input(datatype="TYPE_BOOL"), BOTH, Rules({"FP32"}, needs_every_input=False))


def test_the_batch_size_is_not_beyond_what_the_file_allows():
    filled = completed(config(), BOTH, {"default-max-batch-size": "16"})
    assert filled.max_batch_size == 2
    assert [each.dims for each in filled.input] == [(3,), (3,)]


def test_a_side_that_is_not_known_stays_as_it_is():
    half = Signature((TensorInfo("A", "FP32", (3,)),), (TensorInfo("Y", "FP32"),))
    filled = completed(config(), half, {})
    assert [each.name for each in filled.input] == ["A"]
    assert filled.output == ()
    assert filled.max_batch_size == 0
