# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import parse_pbtxt, to_json_dict
from backends.config.validation.composing import fits, with_composing


def tensors(kind: str, rows: str) -> str:
    """``name:TYPE:dims`` separated by blanks; a trailing ``?`` makes an input optional."""
    parts = []
    for row in rows.split():
        name, datatype, dims = row.rstrip("?").split(":")
        optional = "optional: true" if row.endswith("?") else ""
        parts.append(
            f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [{dims}] {optional} }}'
        )
    return " ".join(parts)


def model(name: str, inputs: str, outputs: str, *, batch: int = 8, rest: str = "") -> ModelConfig:
    text = f'name: "{name}" backend: "python" max_batch_size: {batch} '
    return parse_pbtxt(text + tensors("input", inputs) + tensors("output", outputs) + rest, "p")


def step(name: str, inputs: str, outputs: str) -> str:
    """Maps are ``model_tensor=ensemble_tensor`` separated by blanks."""
    maps = [
        '{}_map {{ key: "{}" value: "{}" }}'.format(kind, *pair.split("="))
        for kind, pairs in (("input", inputs), ("output", outputs))
        for pair in pairs.split()
    ]
    return f'step {{ model_name: "{name}" model_version: -1 {" ".join(maps)} }}'


def ensemble(inputs: str, outputs: str, *steps: str, batch: int = 8, rest: str = "") -> ModelConfig:
    return parse_pbtxt(
        f'name: "e" platform: "ensemble" max_batch_size: {batch} {tensors("input", inputs)} '
        f"{tensors('output', outputs)} ensemble_scheduling {{ {' '.join(steps)} }} {rest}",
        "p",
    )


def complete(config: ModelConfig, *models: ModelConfig) -> ModelConfig:
    return with_composing(config, {each.name: each for each in models})


A = model("a", "I:FP32:4", "O:FP32:4")
DECOUPLED = "model_transaction_policy { decoupled: true }"


def test_a_chain_that_fits_is_not_decoupled():
    config = ensemble("X:FP32:4", "Y:FP32:4", step("a", "I=X", "O=m"), step("a", "I=m", "O=Y"))

    completed = complete(config, A)

    assert not completed.decoupled
    assert to_json_dict(completed)["model_transaction_policy"] == {"decoupled": False}


def test_a_decoupled_step_makes_the_ensemble_decoupled():
    config = ensemble("X:FP32:4", "Y:FP32:4", step("d", "I=X", "O=m"), step("a", "I=m", "O=Y"))

    assert complete(config, A, model("d", "I:FP32:4", "O:FP32:4", rest=DECOUPLED)).decoupled


def test_an_ensemble_that_a_step_makes_decoupled_has_no_response_cache():
    cache = "response_cache { enable: true }"
    config = ensemble("X:FP32:4", "Y:FP32:4", step("a", "I=X", "O=Y"), rest=cache)

    assert complete(config, A).response_cache
    with pytest.raises(InvalidArgumentError) as caught:
        complete(config, model("a", "I:FP32:4", "O:FP32:4", rest=DECOUPLED))
    assert caught.value.message == (
        "Response Cache does not currently support model e with 'decoupled' transaction policy. "
        "Please disable the response cache."
    )


def test_an_optional_input_need_not_be_mapped():
    config = ensemble("X:FP32:4", "Y:FP32:4", step("o", "I=X", "O=Y"))

    complete(config, model("o", "I:FP32:4 J:FP32:4?", "O:FP32:4"))


def test_a_batching_and_a_plain_model_may_share_a_tensor_whose_full_shapes_agree():
    config = ensemble("X:FP32:4", "Y:FP32:4", step("n", "I=X", "O=m"), step("a", "I=m", "O=Y"))

    complete(config, A, model("n", "I:FP32:-1,4", "O:FP32:-1,4", batch=0))


@pytest.mark.parametrize(
    ("steps", "models", "expected"),
    [
        (
            (step("a", "I=X J=X", "O=Y"),),
            (A,),
            "in ensemble e, ensemble tensor X is mapping to non-existing input J in model a",
        ),
        (
            (step("b", "I=X", "O=Y"),),
            (model("b", "I:FP32:4 J:FP32:4", "O:FP32:4"),),
            "in ensemble e, input J in model b is not mapped to any ensemble tensors",
        ),
        (
            (step("a", "I=X", "P=Y"),),
            (A,),
            "in ensemble e, ensemble tensor Y is mapped from non-existing output P in model a",
        ),
        (
            (step("b", "I=X", "O=Y P=Y"),),
            (model("b", "I:FP32:4", "O:FP32:4 P:FP32:4"),),
            "in ensemble e, multiple outputs in model b are mapped to the same ensemble tensor Y",
        ),
        (
            (step("b", "I=X", "O=Y"),),
            (model("b", "I:INT32:4", "O:FP32:4"),),
            "in ensemble e, ensemble tensor X: inconsistent data type: TYPE_FP32 is inferred from "
            "model e while TYPE_INT32 is inferred from model b",
        ),
        (
            (step("b", "I=X", "O=Y"),),
            (model("b", "I:FP32:5", "O:FP32:4"),),
            "in ensemble e, ensemble tensor X: inconsistent shape: [-1,4] is inferred from model e "
            "while [-1,5] is inferred from model b",
        ),
        (
            (step("b", "I=X", "O=Y"),),
            (model("b", "I:FP32:4", "O:FP32:4", batch=4),),
            "ensemble e allows maximum batch size 8, but it contains model b which only allows "
            "maximum batch size to be 4",
        ),
        (
            (
                step("d", "I=X", "O=m"),
                step("d", "I=X", "O=n"),
                step("two", "I=m J=n", "O=Y"),
            ),
            (
                model("d", "I:FP32:4", "O:FP32:4", rest=DECOUPLED),
                model("two", "I:FP32:4 J:FP32:4", "O:FP32:4"),
            ),
            "in ensemble e, step of model 'e' receives inputs originated from different "
            "decoupled models",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_tritons_words(
    steps: tuple[str, ...], models: tuple[ModelConfig, ...], expected: str
):
    with pytest.raises(InvalidArgumentError) as caught:
        complete(ensemble("X:FP32:4", "Y:FP32:4", *steps), *models)
    assert caught.value.message == expected


def test_both_outputs_of_one_decoupled_step_may_meet_again():
    config = ensemble(
        "X:FP32:4", "Y:FP32:4", step("d", "I=X", "O=m P=n"), step("two", "I=m J=n", "O=Y")
    )
    split = model("d", "I:FP32:4", "O:FP32:4 P:FP32:4", rest=DECOUPLED)

    assert complete(config, split, model("two", "I:FP32:4 J:FP32:4", "O:FP32:4")).decoupled


def test_wildcards_fit_anything_of_the_same_rank():
    assert fits((-1, 4), (7, 4))
    assert fits((7, 4), (-1, 4))
    assert not fits((-1, 4), (7, 5))
    assert not fits((-1,), (7, 5))


CONDITION = 'parameters { key: "condition.0" value { string_value: "c" } }'


def test_a_condition_may_be_on_a_tensor_of_a_later_step():
    steps = (step("a", "I=X", "O=Y"), step("ask", "I=X", "O=c"))
    complete(
        ensemble("X:FP32:4", "Y:FP32:4", *steps, rest=CONDITION),
        A,
        model("ask", "I:FP32:4", "O:BOOL:1"),
    )


def test_a_condition_on_another_type_or_of_a_decoupled_step_is_refused():
    steps = (step("a", "I=X", "O=Y"), step("ask", "I=X", "O=c"))
    config = ensemble("X:FP32:4", "Y:FP32:4", *steps, rest=CONDITION)
    with pytest.raises(InvalidArgumentError, match="tensor c of type TYPE_FP32, expected TYPE_BOO"):
        complete(config, A, model("ask", "I:FP32:4", "O:FP32:1"))
    stream = model("a", "I:FP32:4", "O:FP32:4", rest=DECOUPLED)
    with pytest.raises(InvalidArgumentError, match="put the condition on the steps that follow"):
        complete(config, stream, model("ask", "I:FP32:4", "O:BOOL:1"))
