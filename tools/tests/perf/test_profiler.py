# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""Levels are measured on an event loop of virtual time, against a simulated server."""

import asyncio
import itertools
import json

import pytest

from backends.api.errors import UnavailableError
from manta_tools.perf.data.model import Model, Tensor
from manta_tools.perf.data.rows import Content, DataSet, Row
from manta_tools.perf.load.loops import ClosedLoop, OpenLoop
from manta_tools.perf.load.schedules import constant
from manta_tools.perf.measuring import search
from manta_tools.perf.measuring.server_statistics import ServerCounts, ServerSide
from manta_tools.perf.measuring.stability import StabilityRule
from manta_tools.perf.measuring.windows import objective
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.profiler import Plan, Profiler, Surroundings
from manta_tools.perf.reports import text
from manta_tools.perf.reports.csv_file import composing_reports, csv_report
from manta_tools.perf.reports.profile_export import profile_export
from tests.support import virtual_time
from tests.support.simulated_queue import Rows, SimulatedQueue, fixed

MS = 1_000_000
SECOND = 1000 * MS
MODEL = Model("m", "", (Tensor("A", "INT32", (1,)),), ())
OPTIONS = parse_options(["-m", "m"])
DATA = DataSet(((Row({"A": Content("INT32", (1,), bytes(4))}),),))


class FailingServer:
    def send(self, request, listener):
        request.error = "it is broken"
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, listener.ended, request, round(loop.time() * 1e9))


def profile(plan, levels, *, service_ns=None, server=None, rate=False, statistics=None):
    """Measure levels; without a server one of ten milliseconds."""

    async def run():
        loop = asyncio.get_running_loop()

        def now():
            return round(loop.time() * 1e9)

        def after(wait_ns, call, *arguments):
            loop.call_later(wait_ns / 1e9, call, *arguments)

        def make_load(level, limit):
            queue = server or SimulatedQueue(now, after, service_ns or fixed(10 * MS))
            if rate:
                schedule = constant(level)
                return OpenLoop(queue, Rows(), now, after, schedule=schedule, limit=limit)
            return ClosedLoop(queue, Rows(), now, concurrency=int(level), limit=limit)

        async def sleep(wait_ns):
            await asyncio.sleep(wait_ns / 1e9)

        surroundings = Surroundings(now, sleep, lambda: 0, statistics, on_pass=passes.append_pass)
        profiler = Profiler(plan, make_load, surroundings)
        return await profiler.search(levels, lambda measured: None)

    passes = _Passes()
    return virtual_time.run(run())


class _Passes(list):
    def append_pass(self, number, done):
        self.append((number, done))


def one(level=1):
    return search.linear(level, level, 1)


def test_three_windows_that_agree_end_a_level():
    measured = profile(Plan(window_ns=SECOND), one())[0]
    assert measured.is_stable
    assert len(measured.passes) == 3
    assert measured.total.window.throughput == pytest.approx(100, rel=0.01)
    assert measured.total.window.duration_s == pytest.approx(3)


def test_a_level_that_never_agrees_is_not_stable():
    growing = (count * MS for count in itertools.count(1))
    plan = Plan(window_ns=SECOND, max_trials=5)
    measured = profile(plan, one(), service_ns=growing)[0]
    assert not measured.is_stable
    assert text.failure(OPTIONS, measured).startswith("Failed to obtain stable measurement within")


def test_throughput_alone_makes_an_asynchronous_level_stable():
    plan = Plan(StabilityRule(is_async=True), window_ns=SECOND, max_trials=4)
    # At a rate above what the server does, throughput is steady and latency grows.
    measured = profile(plan, one(200), rate=True)[0]
    assert measured.is_stable
    plan = Plan(StabilityRule(), window_ns=SECOND, max_trials=4)
    assert not profile(plan, one(200), rate=True)[0].is_stable


def test_a_run_of_exactly_so_many_requests_is_one_window():
    measured = profile(Plan(request_count=42), one(2))[0]
    assert measured.total.window.requests == 42
    assert measured.total.window.duration_s == pytest.approx(0.42)


def test_a_count_window_has_enough_requests_and_lasts_a_second():
    measured = profile(Plan(window_ns=0, window_requests=150), one())[0]
    assert [each.window.requests for each in measured.passes] == [200] * 3


def test_requests_of_the_warmup_are_not_measured():
    counted = []

    def service():
        while True:
            counted.append(1)
            yield 10 * MS

    measured = profile(Plan(request_count=10, warmup_count=5), one(), service_ns=service())[0]
    assert measured.total.window.requests == 10
    assert len(counted) == 15


def test_a_search_stops_at_the_limit_of_latency():
    plan = Plan(StabilityRule(latency_limit_ms=35), window_ns=SECOND)
    measured = profile(plan, search.linear(1, 0, 1))
    # One server of 10 ms: four at once wait 40 ms.
    assert [each.level for each in measured] == [1, 2, 3, 4]
    assert [each.meets for each in measured] == [True, True, True, False]
    options = parse_options(["-m", "m", "--concurrency-range", "1:0", "-l", "35"])
    assert (
        text.failure(options, measured[3])
        == "Measured latency went over the set limit of 35 msec. "
    )


def test_a_percentile_is_what_has_to_be_stable():
    plan = Plan(window_ns=SECOND, percentile=90)
    measured = profile(plan, one(), service_ns=itertools.cycle([MS, 20 * MS]))[0]
    assert measured.total.latency_ns == pytest.approx(20 * MS, rel=0.001)


def test_goodput_counts_what_keeps_its_objectives():
    plan = Plan(request_count=10, objectives=(objective("request_latency", 5),))
    measured = profile(plan, one(), service_ns=itertools.cycle([MS, 20 * MS]))[0]
    assert measured.total.window.good == 5


def test_a_server_that_only_fails_ends_the_run_with_its_error():
    with pytest.raises(UnavailableError, match="the first: it is broken"):
        profile(Plan(window_ns=SECOND), one(), server=FailingServer())


def test_a_server_that_never_answers_ends_the_run():
    with pytest.raises(UnavailableError, match="No valid requests recorded"):
        profile(Plan(window_ns=SECOND), one(), service_ns=fixed(10 * SECOND))


def counting_statistics():
    asked = itertools.count()

    async def statistics():
        count = 100 * next(asked)
        return {
            ("m", "1"): ServerCounts(
                inference_count=count,
                execution_count=count,
                success_count=count,
                success_ns=count * 9 * MS,
                queue_count=count,
                queue_ns=count * MS,
                compute_input_count=count,
                compute_input_ns=count * MS,
                compute_infer_count=count,
                compute_infer_ns=count * 5 * MS,
                compute_output_count=count,
                compute_output_ns=count * MS,
            )
        }

    return statistics


def test_the_server_s_statistics_are_those_of_the_windows():
    measured = profile(Plan(window_ns=SECOND), one(), statistics=counting_statistics())[0]
    assert measured.total.counted["m", "1"].success_count == 300


def measured_with_server():
    measured = profile(Plan(window_ns=SECOND), one(2), statistics=counting_statistics())[0]
    return measured, ServerSide(measured.total.counted["m", "1"])


def test_a_level_s_report_has_perf_analyzer_s_lines():
    measured, server = measured_with_server()
    assert text.level_title(OPTIONS, measured.level) == "Request concurrency: 2"
    lines = text.level_report(OPTIONS, MODEL, measured, server).splitlines()
    assert lines == [
        "  Client: ",
        "    Request count: 300",
        "    Throughput: 100 infer/sec",
        "    Avg latency: 19966 usec (standard deviation 577 usec)",
        "    p50 latency: 20004 usec",
        "    p90 latency: 20004 usec",
        "    p95 latency: 20004 usec",
        "    p99 latency: 20004 usec",
        "    Avg HTTP time: 19966 usec (send/recv 0 usec + response wait 19966 usec)",
        "    95% confidence: throughput +- 1.47997 infer/sec, avg latency +- 69 usec",
        "  Server: ",
        "    Inference count: 300",
        "    Execution count: 300",
        "    Successful request count: 300",
        "    Avg request latency: 9000 usec (overhead 1000 usec + queue 1000 usec + compute input "
        "1000 usec + compute infer 5000 usec + compute output 1000 usec)",
    ]


def test_the_last_lines_are_throughput_and_latency_of_each_level():
    measured, _ = measured_with_server()
    assert text.summary(OPTIONS, [measured]).splitlines() == [
        "Inferences/Second vs. Client Average Batch Latency",
        "Concurrency: 2, throughput: 100 infer/sec, latency 19966 usec",
    ]


def test_the_settings_are_printed_as_perf_analyzer_prints_them():
    options = parse_options(["-m", "m", "--concurrency-range", "1:4", "-l", "50"])
    assert text.settings(options, MODEL).splitlines() == [
        "*** Measurement Settings ***",
        "  Batch size: 1",
        "  Service Kind: TRITON",
        '  Using "time_windows" mode for stabilization',
        "  Stabilizing using average latency and throughput",
        "  Measurement window: 5000 msec",
        "  Latency limit: 50 msec",
        "  Concurrency limit: 4 concurrent requests",
        "  Using synchronous calls for inference",
    ]


def test_the_csv_has_perf_analyzer_s_columns():
    report = csv_report(OPTIONS, MODEL, [measured_with_server()])
    assert report.splitlines() == [
        "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server "
        "Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 "
        "latency,p95 latency,p99 latency",
        "2,100,0,11966,1000,1000,5000,1000,0,20004,20004,20004,20004",
    ]


def test_a_verbose_csv_has_more_columns_and_rows_are_sorted_by_throughput():
    options = parse_options(["-m", "m", "--verbose-csv", "--request-rate-range", "10:90:40"])
    levels = profile(Plan(window_ns=SECOND), search.linear(90, 10, -40), rate=True)
    levels += profile(Plan(window_ns=SECOND), one(10), rate=True)
    lines = csv_report(options, MODEL, [(each, None) for each in levels]).splitlines()
    assert lines[0] == (
        "Request Rate,Inferences/Second,Client Send,Client Recv,p50 latency,p90 latency,p95 "
        "latency,p99 latency,Avg latency,request/response,response wait"
    )
    assert [line.split(",")[0] for line in lines[1:]] == ["10", "90"]


def test_composing_models_have_reports_of_their_own():
    measured, server = measured_with_server()
    server = ServerSide(server.counts, ((("part", "2"), server.counts),))
    reports = composing_reports(OPTIONS, [(measured, server)])
    assert list(reports) == ["part_v2"]
    assert reports["part_v2"].splitlines()[1] == "2,100,0,1000,1000,1000,5000,1000,0"
    lines = text.level_report(OPTIONS, MODEL, measured, server).splitlines()
    assert "  Composing models: " in lines
    assert "  part, version: 2" in lines


def test_the_export_has_every_request_and_window():
    plan = Plan(window_ns=SECOND, keeps_requests=True)
    measured = profile(plan, one(2))[0]
    document = json.loads(profile_export(OPTIONS, DATA, [measured], "1.0", 5))
    experiment = document["experiments"][0]
    assert experiment["experiment"] == {"mode": "concurrency", "value": 2}
    assert len(experiment["requests"]) == 300
    assert experiment["requests"][0] == {
        "timestamp": 5,
        "request_inputs": {"A": 0},
        "response_timestamps": [10 * MS + 5],
        "response_outputs": [{}],
    }
    assert experiment["window_boundaries"] == [5 + n * SECOND for n in range(4)]
    assert (document["service_kind"], document["version"]) == ("triton", "1.0")


def test_an_overloaded_rate_s_export_says_when_requests_were_due():
    measured = profile(Plan(request_count=1, keeps_requests=True), one())[0]
    measured.requests[0].intended_ns = -7
    export = profile_export(OPTIONS, DATA, [measured], "1.0", 10)
    assert json.loads(export)["experiments"][0]["requests"][0]["intended_timestamp"] == 3
