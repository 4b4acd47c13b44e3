# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import validate


def step(inputs: str, outputs: str, model: str = "a") -> str:
    """One step; ``inputs`` and ``outputs`` are ensemble tensors, separated by blanks."""
    maps = [
        f'{kind}_map {{ key: "{kind}{index}" value: "{name}" }}'
        for kind, names in (("input", inputs), ("output", outputs))
        for index, name in enumerate(names.split())
    ]
    return f'step {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}'


def ensemble(inputs: str, outputs: str, *steps: str, rest: str = "") -> str:
    tensors = [
        f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [1] }}'
        for kind, names in (("input", inputs), ("output", outputs))
        for name in names.split()
    ]
    return (
        f'name: "e" platform: "ensemble" {" ".join(tensors)} '
        f"ensemble_scheduling {{ {' '.join(steps)} }} {rest}"
    )


def check(text: str) -> None:
    validate(normalise(parse_pbtxt(text, "p"), gpu_ids=(0,)), gpu_ids=(0,))


def complaint_of(text: str) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        check(text)
    return caught.value.message


CHAIN = (step("X", "mid"), step("mid", "Y"))


def test_a_chain_is_accepted():
    check(ensemble("X", "Y", *CHAIN))


def test_outputs_a_step_does_not_map_are_allowed():
    check(ensemble("X", "Y mid", *CHAIN))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'name: "e" backend: "python" ensemble_scheduling {}',
            "ensemble scheduling cannot be set for model 'e' whose platform is not ensemble",
        ),
        (
            ensemble("X", "Y", *CHAIN, rest="instance_group {}"),
            "instance group should not be specified for ensemble 'e'",
        ),
        (
            ensemble("X", "Y", *CHAIN, rest="optimization {}"),
            "optimization should not be specified for ensemble 'e'",
        ),
        (
            ensemble("X", "Y", *CHAIN, rest="model_warmup {}"),
            "model_warmup can not be specified for ensemble 'e'",
        ),
        (ensemble("X", "Y"), "must specify 'step' for ensemble 'e'"),
        (
            ensemble("X", "Y", step("X", "mid"), step("mid", "Y", model="")),
            "must specify 'model_name' in step 1 of ensemble 'e'",
        ),
        (
            ensemble("X", "Y", step("X", "mid"), step("", "Y")),
            "must specify 'input_map' in step 1 of ensemble 'e'",
        ),
        (
            ensemble("X", "Y", step("X", "mid"), step("mid", "")),
            "must specify 'output_map' in step 1 of ensemble 'e'",
        ),
        (
            ensemble("X", "Y", step("X", "Y"), step("X", "Y")),
            "ensemble tensor 'Y' can appear in an output map only once for ensemble 'e' step 1",
        ),
        (ensemble("X Z", "Y", *CHAIN), "ensemble input 'Z' for ensemble e' is not used"),
        (ensemble("X", "Y Z", *CHAIN), "ensemble output 'Z' for ensemble e' is not used"),
        (
            ensemble("X", "Y", step("X", "mid"), step("mid lost", "Y")),
            "output 'Y' for ensemble 'e' is not written: at least one of its depending tensors, "
            "'lost', is not connected",
        ),
        (ensemble("", "Y", step("Y", "Z")), "output 'Y' for ensemble 'e' is not written"),
        (
            ensemble("X", "Y", step("X", "Y spare")),
            "ensemble tensor 'spare' is unused in ensemble 'e'",
        ),
        (
            ensemble("X", "Y", step("X", "Y"), step("lost", "other")),
            "ensemble tensor 'other' is unused in ensemble 'e'",
        ),
    ],
)
def test_ensemble_rule(text: str, expected: str):
    assert complaint_of(text) == expected


def test_a_cycle_ends_the_search_for_a_cause():
    text = ensemble("X", "Y", step("X back", "Y forth"), step("forth", "back"))
    assert complaint_of(text) == (
        "output 'Y' for ensemble 'e' is not written: at least one of its depending tensors, "
        "'forth', is not connected"
    )


def condition(step: str, text: str) -> str:
    return f'parameters {{ key: "condition.{step}" value {{ string_value: "{text}" }} }}'


def test_a_tensor_that_only_decides_is_used():
    check(ensemble("X C", "Y", *CHAIN, rest=condition("1", "!C")))
    check(ensemble("X", "Y", *CHAIN, rest=condition("0", "parameter:on")))


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("2", "X", "parameter 'condition.2' of ensemble 'e' names no step; expected"),
        ("a", "X", "with an index from 0 to 1"),
        ("0", "!", "has value '!'; expected a tensor of the ensemble or 'parameter:<name>'"),
        ("0", "parameter:", "has value 'parameter:'; expected a tensor"),
        ("0", "nothing", "'nothing', is not connected"),
        ("0", "Y", "output 'Y' for ensemble 'e' is not written"),
    ],
)
def test_a_condition_names_a_step_and_what_decides(key: str, text: str, expected: str):
    assert expected in complaint_of(ensemble("X", "Y", *CHAIN, rest=condition(key, text)))
