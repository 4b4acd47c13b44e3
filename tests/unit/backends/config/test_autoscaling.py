# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``autoscaling.*`` parameters of a config."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.autoscaling import (
    AutoscalingRules,
    Signal,
    is_autoscaled,
    read_autoscaling,
)
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import complaints, validate


def config_with(more: str = "", **parameters: object) -> ModelConfig:
    rows = " ".join(
        f'parameters {{ key: "autoscaling.{key}" value {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    )
    return parse_pbtxt(f'name: "m" backend: "identity" {more} {rows}', "p")


def complaint(**parameters: object) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        read_autoscaling(config_with(**parameters))
    return caught.value.message


def test_a_model_without_parameters_has_no_rules() -> None:
    config = config_with()
    assert read_autoscaling(config) is None
    assert not is_autoscaled(config)


def test_what_is_left_out_is_as_in_ray_serve() -> None:
    config = config_with(max_instances=8)
    assert is_autoscaled(config)
    assert read_autoscaling(config) == AutoscalingRules(
        max_instances=8,
        min_instances=1,
        signal=Signal.ONGOING_REQUESTS,
        target=2.0,
        upscale_delay_s=30.0,
        downscale_delay_s=600.0,
        scale_to_zero_after_s=600.0,
    )


@pytest.mark.parametrize("signal", Signal)
def test_the_target_is_the_one_that_is_given(signal: Signal) -> None:
    rules = read_autoscaling(config_with(max_instances=8, **{signal: "1500"}))
    assert rules is not None
    assert (rules.signal, rules.target) == (signal, 1500.0)


def test_the_last_instance_goes_as_soon_as_others_unless_told_otherwise() -> None:
    rules = read_autoscaling(config_with(min_instances=0, max_instances=8, downscale_delay_s=20))
    assert rules is not None
    assert rules.scale_to_zero_after_s == 20


def test_counts_are_brought_within_the_bounds_and_to_one_at_least() -> None:
    rules = AutoscalingRules(max_instances=4, min_instances=0)
    assert [rules.within(count) for count in (0, 1, 4, 9)] == [1, 1, 4, 4]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            {"min_instances": 1},
            "model 'm' has parameter 'autoscaling.min_instances' without"
            " 'autoscaling.max_instances', expected the most instances it may have",
        ),
        (
            {"max_instances": "many"},
            "model 'm' has parameter 'autoscaling.max_instances' with value 'many', expected a"
            " whole number from 1 to 4096",
        ),
        (
            {"max_instances": 2, "min_instances": 3},
            "model 'm' has parameter 'autoscaling.min_instances' with value 3, expected at most"
            " 'autoscaling.max_instances', which is 2",
        ),
        (
            {"max_instances": 2, "target_queue_us": 5, "target_ongoing_requests": 5},
            "model 'm' has parameters 'autoscaling.target_ongoing_requests' and"
            " 'autoscaling.target_queue_us', expected one target",
        ),
        (
            {"max_instances": 2, "scale_to_zero_after_s": 5},
            "model 'm' has parameter 'autoscaling.scale_to_zero_after_s', which needs"
            " 'autoscaling.min_instances' to be 0",
        ),
        (
            {"max_instances": 2, "target_ongoing_requests": 0},
            "model 'm' has parameter 'autoscaling.target_ongoing_requests' with value '0',"
            " expected a number above 0",
        ),
        (
            {"max_instances": 2, "upscale_delay_s": "nan"},
            "model 'm' has parameter 'autoscaling.upscale_delay_s' with value 'nan', expected a"
            " number of seconds, 0 or more",
        ),
        (
            {"max_instances": 2, "upscaling_factor": 1.5},
            "model 'm' has parameter 'autoscaling.upscaling_factor' with value '1.5', expected a"
            " number above 0 and up to 1",
        ),
    ],
)
def test_a_wrong_parameter_is_named_with_what_was_expected(
    parameters: dict[str, object], expected: str
) -> None:
    assert complaint(**parameters) == expected


def test_an_unknown_parameter_is_answered_with_the_known_ones() -> None:
    message = complaint(max_instances=2, max_replicas=2)
    assert message.startswith(
        "model 'm' has unknown parameter 'autoscaling.max_replicas', expected one of:"
        " autoscaling.downscale_delay_s, "
    )


def test_more_instances_than_a_version_may_have_are_refused() -> None:
    assert read_autoscaling(config_with(max_instances=4096)) is not None
    assert "with value '4097', expected" in complaint(max_instances=4097)


def test_a_load_and_the_check_of_a_repository_have_the_same_rules() -> None:
    config = normalise(config_with(max_instances="x"), gpu_ids=())
    with pytest.raises(InvalidArgumentError, match="expected a whole number from 1 to 4096"):
        validate(config, gpu_ids=())
    found = list(complaints(config, gpu_ids=(), tensors=False))
    assert len(found) == 1
    assert "autoscaling.max_instances" in found[0]


def test_an_ensemble_has_nothing_to_scale() -> None:
    step = 'ensemble_scheduling { step { model_name: "a" model_version: -1 } }'
    config = parse_pbtxt(
        f'name: "e" platform: "ensemble" {step} '
        'parameters { key: "autoscaling.max_instances" value { string_value: "2" } }',
        "p",
    )
    with pytest.raises(InvalidArgumentError, match="an ensemble has no instances"):
        read_autoscaling(config)
