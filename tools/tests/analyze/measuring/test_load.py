# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From a load to the options of the load generator."""

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.measuring.load import Conditions, options_of
from manta_tools.analyze.measuring.server import Addresses
from manta_tools.analyze.records import Load
from manta_tools.perf.options.values import Range

ADDRESSES = Addresses("h:1", "g:2", "m:3")
LOAD = Load("simple", "concurrency", 4)


def test_a_load_is_one_level_of_the_protocol_that_is_asked_for():
    options = options_of(LOAD, ADDRESSES, Conditions())
    assert (options.model_name, options.protocol, options.url) == ("simple", "grpc", "g:2")
    assert options.concurrency_range == Range(4, 4, 1)
    options = options_of(
        Load("simple", "request_rate", 12.5, 3), ADDRESSES, Conditions(protocol="http")
    )
    assert (options.url, options.batch_size) == ("h:1", 3)
    assert options.request_rate_range == Range(12.5, 12.5, 1)


def test_a_budget_shortens_windows_down_to_a_least_length():
    conditions = Conditions(window_ms=1000, window_requests=100)
    half = options_of(LOAD, ADDRESSES, conditions, budget=0.5)
    assert (half.measurement_interval, half.measurement_request_count) == (500, 50)
    least = options_of(LOAD, ADDRESSES, conditions, budget=0.001)
    assert (least.measurement_interval, least.measurement_request_count) == (100, 10)


def test_flags_of_a_user_come_before_ours_and_those_of_a_model_before_all():
    conditions = Conditions(
        flags={"measurement-interval": 400, "percentile": 95, "shape": ["IN:4", "B:2"]},
        model_flags={"simple": {"percentile": 99}, "other": {"percentile": 50}},
    )
    options = options_of(LOAD, ADDRESSES, conditions, budget=0.5)
    assert (options.measurement_interval, options.percentile) == (200, 99)
    assert options.shape == (("IN", (4,)), ("B", (2,)))


def test_several_loads_stop_after_the_same_number_of_windows():
    assert options_of(LOAD, ADDRESSES, Conditions(), is_alone=False).max_trials == 3


def test_gpus_are_watched_where_there_are_some():
    assert not options_of(LOAD, ADDRESSES, Conditions()).collect_metrics
    options = options_of(LOAD, ADDRESSES, Conditions(), has_gpus=True)
    assert options.collect_metrics
    assert options.metrics_url == "m:3/metrics"


def test_a_flag_that_the_load_generator_does_not_know_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"'simple'.*--not-there.*perf_analyzer_flags"):
        options_of(LOAD, ADDRESSES, Conditions(flags={"not_there": 1}))
