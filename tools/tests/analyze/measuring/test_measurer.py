# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trials against a tiny server; how fast it is is not looked at."""

import contextlib
import json
from dataclasses import replace

import pytest

from manta_tools.analyze.measuring.load import Conditions
from manta_tools.analyze.measuring.measurer import Models, TrialMeasurer
from manta_tools.analyze.measuring.server import Addresses, RunningServer
from manta_tools.analyze.records import Candidate, Load, Setting, Trial
from tests.support.loadable_server import REPOSITORY_CONFIG, LoadableServer

# One window of exactly so many requests, however slow the machine is.
CONDITIONS = Conditions(protocol="http", flags={"request-count": 4})


def override(setting):
    group = {**REPOSITORY_CONFIG["instance_group"][0], **dict(setting.values)}
    return json.dumps({**REPOSITORY_CONFIG, "instance_group": [group]})


def served_count(server):
    return server.loaded["instance_group"][0]["count"]


def trial(*values, level=2.0):
    return Trial(Candidate((Setting("echo", values),)), (Load("echo", "concurrency", level),))


@contextlib.asynccontextmanager
async def measurer_of(server, *, is_reloaded=True, **conditions):
    async with server as port:
        address = f"127.0.0.1:{port}"
        measurer = TrialMeasurer(
            RunningServer(Addresses(address, address, address)),
            replace(CONDITIONS, **conditions),
            Models(override, {}, is_reloaded=is_reloaded),
            max_retries=0,
        )
        try:
            yield measurer
        finally:
            await measurer.close()


async def test_a_variant_is_loaded_once_for_all_its_loads():
    server = LoadableServer()
    async with measurer_of(server) as measurer:
        for level in (1.0, 2.0):
            measured = await measurer.measure(trial(("count", 2), level=level))
            assert measured.error == ""
            assert measured.metrics["echo"]["perf_throughput"] > 0
        await measurer.measure(trial())
        assert measurer.idle_gpus == {"GPU-1": {"gpu_utilization": 50.0}}
    counts = [config and config["instance_group"][0]["count"] for _, config in server.calls]
    assert counts[:2] == [2, 1]


async def test_gpus_of_the_idle_server_are_read_as_long_as_is_asked_for():
    server = LoadableServer()
    pages = iter(f'nv_gpu_utilization{{gpu_uuid="GPU-1"}} {each}\n' for each in (0.1, 0.2, 0.6))
    server.on_metrics = lambda: next(pages)
    async with measurer_of(server, idle_s=0.002, interval_s=0.001) as measurer:
        await measurer.connect()
        assert measurer.idle_gpus == {"GPU-1": {"gpu_utilization": pytest.approx(30.0)}}
    assert next(pages, None) is None


async def test_a_server_without_gpus_is_not_waited_for():
    server = LoadableServer()
    server.counters.metrics = "nv_cpu_utilization 0.5\n"
    async with measurer_of(server, idle_s=1e6) as measurer:
        await measurer.connect()
        assert measurer.idle_gpus == {}


async def test_a_model_that_was_served_has_its_config_again_in_the_end():
    served = LoadableServer()
    served.is_ready = True
    served.counters.config = served.loaded = json.loads(override(Setting("echo", (("count", 4),))))
    async with measurer_of(served) as measurer:
        assert (await measurer.default_config("echo")).instance_group[0].count == 4
        await measurer.measure(trial(("count", 2)))
        assert served_count(served) == 2
    assert served.is_ready
    assert served_count(served) == 4


async def test_what_was_not_served_is_unloaded_in_the_end():
    fresh = LoadableServer()
    async with measurer_of(fresh) as measurer:
        await measurer.measure(trial(("count", 2)))
    assert fresh.calls[-1] == ("unload", None)


async def test_a_variant_that_does_not_load_is_an_outcome():
    server = LoadableServer()
    server.refused_instances = 3
    async with measurer_of(server) as measurer:
        failed = await measurer.measure(trial(("count", 3)))
        assert "too many instances" in failed.error
        assert failed.metrics == {}
        assert (await measurer.measure(trial(("count", 2)))).error == ""


async def test_a_model_that_was_served_is_restored_after_a_load_that_failed():
    server = LoadableServer()
    server.is_ready, server.refused_instances = True, 3
    async with measurer_of(server) as measurer:
        await measurer.default_config("echo")
        await measurer.measure(trial(("count", 3)))
    assert served_count(server) == 1


async def test_a_variant_of_which_every_request_fails_is_an_outcome():
    server = LoadableServer()
    server.failing_instances = 3
    async with measurer_of(server) as measurer:
        assert "it is broken" in (await measurer.measure(trial(("count", 3)))).error


async def test_models_are_measured_as_they_are_where_reloads_are_off():
    server = LoadableServer()
    server.is_ready = True
    async with measurer_of(server, is_reloaded=False) as measurer:
        assert (await measurer.measure(trial(("count", 2)))).error == ""
        assert (await measurer.default_config("echo")).max_batch_size == 8
    assert server.calls == []
