# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.admission import ModelAdmission, read_admission


def config(**parameters):
    return ModelConfig("m", parameters={f"admission.{k}": v for k, v in parameters.items()})


def test_a_config_without_such_parameters_says_nothing():
    assert read_admission(config()) is None


def test_all_parameters_are_read():
    given = config(mode="on", target_queue_us="2500", burst_us="50000", priority="3")
    assert read_admission(given) == ModelAdmission(
        is_on=True, target_queue_us=2500, burst_us=50000, priority=3
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "yes"),
        ("target_queue_us", "-1"),
        ("target_queue_us", "1.5"),
        ("burst_us", "0"),
        ("priority", "0"),
        ("priority", "101"),
        ("prio", "1"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_expected(name, value):
    with pytest.raises(InvalidArgumentError, match=rf"model 'm' .*admission\.{name}'.*expected"):
        read_admission(config(**{name: value}))
