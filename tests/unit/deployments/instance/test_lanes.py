# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance answers to routers' control calls."""

import logging

import msgspec
import pytest

from backends.api.errors import UnsupportedError
from backends.api.model_config import ModelConfig
from deployments.instance.executor import Executor
from deployments.instance.lanes import InstanceLanes
from deployments.instance.lead import Lead
from deployments.instance.readiness import Readiness
from deployments.reactor.reactor import Reactor
from deployments.settings import log_lines
from deployments.settings.metrics_settings import MetricsSettings
from deployments.settings.server_settings import InstanceSettings, LogSettings
from deployments.shared_memory.objects import RegionMemory
from tests.support.lane_requests import ScriptedModel

QUIET, LOUD = LogSettings(verbose_level=0), LogSettings(verbose_level=1)


@pytest.fixture
def lanes(monkeypatch):
    monkeypatch.setattr(log_lines, "_ROOTS", ("manta-test-lanes",))
    reactor = Reactor()
    model, config = ScriptedModel(), ModelConfig("m")
    executor = Executor(config, 1, model, Lead(reactor))
    yield InstanceLanes(config, executor, model, RegionMemory(), Readiness("m", model.is_ready))
    reactor.close()


def tell(lanes: InstanceLanes, settings: InstanceSettings) -> list[logging.Handler]:
    """Tell of settings and return the handlers of the log afterwards."""
    assert lanes.call("settings", msgspec.msgpack.encode(settings)) == b""
    return list(logging.getLogger("manta-test-lanes").handlers)


def level() -> int:
    return logging.getLogger("manta-test-lanes").level


def test_settings_of_an_older_table_do_not_override_newer_ones(lanes):
    tell(lanes, InstanceSettings(LOUD, version=7))
    assert level() == logging.DEBUG
    tell(lanes, InstanceSettings(QUIET, version=6))
    assert level() == logging.DEBUG
    tell(lanes, InstanceSettings(QUIET, version=8))
    assert level() == logging.INFO


def test_log_handlers_stay_while_the_log_settings_do(lanes):
    handlers = tell(lanes, InstanceSettings(LOUD, version=1))
    assert tell(lanes, InstanceSettings(LOUD, version=2)) == handlers
    assert tell(lanes, InstanceSettings(LOUD, (), MetricsSettings(), version=3)) == handlers
    assert tell(lanes, InstanceSettings(QUIET, version=4)) != handlers


def test_settings_that_only_differ_in_their_version_are_equal():
    assert InstanceSettings(LOUD, version=1) == InstanceSettings(LOUD, version=2)


def test_readiness_is_answered_later(lanes):
    answer = lanes.call("health", b"")
    assert msgspec.msgpack.decode(answer.result(30), type=bool) is True


def test_an_unknown_call_is_refused(lanes):
    with pytest.raises(UnsupportedError, match="instances know no lane call 'dance'"):
        lanes.call("dance", b"")


@pytest.mark.parametrize(
    ("parameters", "is_noted"),
    [({}, False), ({"autoscaling.target_latency_p95_us": "1000"}, True)],
)
def test_latencies_are_noted_for_a_model_that_scales_by_them_whatever_metrics_show(
    parameters, is_noted
):
    reactor = Reactor()
    model, config = ScriptedModel(), ModelConfig("m", parameters=parameters)
    executor = Executor(config, 1, model, Lead(reactor))
    readiness = Readiness("m", model.is_ready)
    lanes = InstanceLanes(config, executor, model, RegionMemory(), readiness)
    for metrics in (MetricsSettings(), MetricsSettings(has_summaries=True), MetricsSettings()):
        lanes._observe(metrics)
    assert bool(executor.statistics().latencies) is is_noted
    reactor.close()
