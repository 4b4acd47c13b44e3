# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the actor says of a load that failed; a running one needs Ray and is tested with it."""

import threading
from dataclasses import replace

import pytest
import setproctitle

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import parse_pbtxt
from deployments.instance import actor as actor_module
from deployments.instance.actor import ModelInstanceActor
from deployments.instance.executor import Executor
from deployments.instance.lead import Lead
from deployments.instance.loading import LoadedInstance
from deployments.instance.spec import InstanceSpec
from deployments.metrics.counters import InstanceStatistics
from deployments.reactor.reactor import Reactor
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until

ONE_SIDED = 'name: "m" backend: "identity" input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]'


@pytest.fixture(autouse=True)
def _process(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    title = setproctitle.getproctitle()
    yield
    setproctitle.setproctitle(title)


def spec() -> InstanceSpec:
    config = parse_pbtxt(ONE_SIDED, "m/config.pbtxt")
    return InstanceSpec(
        1,
        1,
        "/nowhere/m",
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0_0",
        config=config,
        auto_complete=False,
    )


async def failure_of(actor: ModelInstanceActor) -> TritonError:
    with pytest.raises(TritonError) as info:
        await actor.describe()
    return info.value


async def test_a_failed_load_is_told_as_often_as_asked():
    actor = ModelInstanceActor(spec())
    for _ in range(2):
        error = await failure_of(actor)
        assert isinstance(error, InvalidArgumentError)
        assert "identity model 'm'" in error.message
    assert not await actor.health()
    assert await actor.drain(1.0)
    assert (await actor.statistics()).execution_count == 0


async def test_a_load_that_takes_longer_than_it_may_is_told(monkeypatch):
    gate = threading.Event()

    def load(*_):
        assert gate.wait(30)
        raise InvalidArgumentError("too late")

    monkeypatch.setattr(actor_module, "load_instance", load)
    actor = ModelInstanceActor(replace(spec(), load_timeout_s=0.001))
    error = await failure_of(actor)
    assert isinstance(error, UnavailableError)
    assert error.message == (
        "instance m/1#0@1 has not loaded model 'm' within 0.001 s; load it faster or raise "
        "--model-load-timeout-secs"
    )
    gate.set()
    # What is known after all is told, however late.
    await until(actor._loaded.done)
    assert (await failure_of(actor)).message == "too late"


class Doubtful(ScriptedModel):
    """Counts its doubts."""

    def custom_metrics(self) -> list[CustomFamily]:
        return [CustomFamily("doubts", "", MetricKind.COUNTER, [CustomMetric(value=3.0)])]


async def test_what_it_has_counted_has_the_metrics_of_the_models_own(monkeypatch):
    model, config = Doubtful(), ModelConfig("m")
    loaded = LoadedInstance(model, config, 1, InstanceStatistics(), {})
    monkeypatch.setattr(actor_module, "load_instance", lambda *_: loaded)
    actor = ModelInstanceActor(spec())
    executor = Executor(config, 1, model, Lead(Reactor()))
    actor._serving.set_result(executor)
    await until(actor._loaded.done)
    (family,) = (await actor.statistics()).custom
    assert (family.name, family.metrics[0].value) == ("doubts", 3.0)
    await executor.close(30)
