# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""The whole command against tiny servers on this machine; what they measure is not looked at."""

import asyncio
import csv
import json
import os
import signal
import ssl

import pytest

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from manta_tools.perf.command import main, perform
from manta_tools.perf.options.parsing import parse_options
from tests.support.certificates import make_certificates
from tests.support.echo_servers import Counters, EchoGrpcServer, EchoHttpServer

# Windows that end when a request has ended, however slow the machine is; any three agree.
WINDOWS = ("--measurement-mode", "count_windows", "--measurement-request-count", "1")
QUICK = (*WINDOWS, "-s", "100000000")


async def perf(port, *arguments):
    url = arguments[arguments.index("-u") + 1] if "-u" in arguments else f"127.0.0.1:{port}"
    return await perform(parse_options(["-m", "echo", "-u", url, *arguments]))


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
async def test_levels_of_concurrency_are_reported(tmp_path, capsys):
    report = tmp_path / "report.csv"
    async with EchoHttpServer(Counters()) as port:
        code = await perf(port, "--concurrency-range", "1:3:2", *QUICK, "-f", str(report), "-v")
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "*** Measurement Settings ***"
    assert "Request concurrency: 1" in lines
    assert "Request concurrency: 3" in lines
    assert "  Server: " in lines
    assert any(line.startswith("  Pass [3] throughput: ") for line in lines)
    assert sum(line.startswith("Concurrency: ") for line in lines) == 2
    assert {row["Concurrency"] for row in rows(report)} == {"1", "3"}


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["constant", "poisson"])
async def test_a_rate_is_reported(tmp_path, capsys, distribution):
    report = tmp_path / "report.csv"
    async with EchoHttpServer(Counters()) as port:
        arguments = ("--request-rate-range", "50", "--request-distribution", distribution)
        code = await perf(port, *arguments, "--request-count", "50", "-f", str(report))
    assert code == 0
    assert "Request Rate: 50 inference requests per seconds" in capsys.readouterr().out
    assert rows(report)[0]["Request Rate"] == "50"


async def test_intervals_of_a_file_are_a_rate(tmp_path, capsys):
    intervals = tmp_path / "intervals"
    intervals.write_text("1000\n3000\n")
    async with EchoHttpServer(Counters()) as port:
        arguments = ("--request-intervals", str(intervals), "--request-count", "20")
        assert await perf(port, *arguments) == 0
    assert "Request Rate: 500, throughput: " in capsys.readouterr().out


async def test_every_request_of_a_run_is_exported(tmp_path):
    export = tmp_path / "export.json"
    async with EchoHttpServer(Counters()) as port:
        arguments = ("--request-count", "12", "--profile-export-file", str(export))
        await perf(port, *arguments, "--warmup-request-count", "3")
    requests = json.loads(export.read_text())["experiments"][0]["requests"]
    assert len(requests) == 12
    assert all(len(each["request_inputs"]["IN"]) == 4 for each in requests)
    assert all(each["response_timestamps"][0] >= each["timestamp"] > 10**18 for each in requests)


async def test_sequences_begin_end_and_are_all_closed():
    counters = Counters(sequence_batching={})
    async with EchoHttpServer(counters) as port:
        arguments = ("--sequence-length", "4", "--sequence-id-range", "70:80")
        await perf(port, *arguments, "--concurrency-range", "2", "--request-count", "30")
    parameters = [header["parameters"] for header in counters.headers]
    assert {each["sequence_id"] for each in parameters} <= set(range(70, 80))
    starts = sum(each["sequence_start"] for each in parameters)
    assert starts == sum(each["sequence_end"] for each in parameters) > 0


async def validated(tmp_path, expected):
    data = tmp_path / "data.json"
    step = {"IN": [1, 2, 3, 4]}
    data.write_text(json.dumps({"data": [step], "validation_data": [{"OUT": expected}]}))
    async with EchoHttpServer(Counters()) as port:
        return await perf(port, "--input-data", str(data), "--request-count", "5")


async def test_answers_that_are_as_expected_count(tmp_path):
    assert await validated(tmp_path, [1, 2, 3, 4]) == 0


async def test_answers_that_are_not_end_the_run(tmp_path):
    with pytest.raises(UnavailableError, match="Output doesn't match expected"):
        await validated(tmp_path, [0, 0, 0, 0])


async def test_inputs_may_be_json():
    counters = Counters()
    async with EchoHttpServer(counters) as port:
        arguments = ("--input-tensor-format", "json", "--output-tensor-format", "json")
        await perf(port, *arguments, "--input-data", "zero", "--request-count", "1", "-b", "2")
    assert counters.headers[0]["inputs"][0]["data"] == [0] * 8
    assert counters.headers[0]["outputs"][0]["parameters"] == {"binary_data": False}


async def test_tensors_in_shared_memory_are_registered_and_removed():
    counters = Counters()
    async with EchoHttpServer(counters) as port:
        await perf(port, "--shared-memory", "system", "--request-count", "3")
    assert "shared_memory_region" in counters.headers[0]["inputs"][0]["parameters"]
    assert "shared_memory_region" in counters.headers[0]["outputs"][0]["parameters"]
    assert counters.regions == {}


TRACING = ("--trace-level", "TENSORS", "--trace-rate", "3", "--trace-count", "-1")


async def test_the_server_s_traces_are_set_before_the_load():
    counters = Counters()
    async with EchoHttpServer(counters) as port:
        await perf(port, *TRACING, "--log-frequency", "0", "--request-count", "1")
    expected = {"trace_level": ["TENSORS"], "trace_rate": "3", "trace_count": "-1"}
    assert counters.traced == {**expected, "log_frequency": "0"}
    counters = Counters()
    async with EchoGrpcServer(counters) as port:
        await perf(port, "-i", "grpc", *TRACING, "--request-count", "1")
    assert counters.traced == {
        "trace_level": ["TENSORS"],
        "trace_rate": ["3"],
        "trace_count": ["-1"],
    }


async def test_headers_go_with_every_request():
    counters = Counters()
    async with EchoHttpServer(counters) as port:
        await perf(port, "-H", "Authorization: Bearer x", "--request-count", "1")
    assert counters.http_headers[0]["authorization"] == "bearer x"


async def test_https_trusts_whom_it_is_told_to(tmp_path):
    certificates = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.server)
    async with EchoHttpServer(Counters(), context) as port:
        url = ("-u", f"https://localhost:{port}", "--request-count", "2")
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await perf(port, *url)
        trusted = ("--ssl-https-ca-certificates-file", str(certificates.root))
        assert await perf(port, *url, *trusted) == 0
        assert await perf(port, *url, "--ssl-https-verify-peer", "0") == 0


@pytest.mark.parametrize("extra", [(), ("--streaming",), ("--grpc-compression-algorithm", "gzip")])
async def test_grpc_is_measured(capsys, extra):
    async with EchoGrpcServer(Counters()) as port:
        code = await perf(port, "-i", "grpc", *extra, "--request-count", "20", "-b", "3")
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("    Avg gRPC time: ") for line in lines)


async def test_a_decoupled_model_s_responses_are_measured(capsys):
    async with EchoGrpcServer(Counters(), responses=3) as port:
        arguments = ("-i", "grpc", "--streaming", "--request-count", "8")
        await perf(port, *arguments, "--goodput", "time_to_first_response:1e6")
    lines = capsys.readouterr().out.splitlines()
    for start in (
        "    Response Throughput: ",
        "    Time to first response: avg ",
        "    Time between responses: avg ",
        "    Goodput: ",
    ):
        assert any(line.startswith(start) for line in lines), start


async def test_a_decoupled_model_without_a_stream_is_refused():
    async with EchoGrpcServer(Counters(), responses=3) as port:
        with pytest.raises(InvalidArgumentError, match="give -i grpc --streaming"):
            await perf(port, "-i", "grpc")


async def test_periodic_concurrency_sends_each_request_once(tmp_path):
    export = tmp_path / "export.json"
    server = EchoGrpcServer(Counters(), responses=4)
    async with server as port:
        arguments = ("-i", "grpc", "--streaming", "--periodic-concurrency-range", "2:6:2")
        period = ("--request-period", "3", "--profile-export-file", str(export))
        assert await perf(port, *arguments, *period) == 0
    assert len(server.servicer.requests) == 6
    experiment = json.loads(export.read_text())["experiments"][0]
    assert [len(each["response_timestamps"]) for each in experiment["requests"]] == [4] * 6


@pytest.mark.slow
async def test_a_level_that_is_not_stable_has_an_exit_code_of_its_own(capsys):
    async with EchoHttpServer(Counters()) as port:
        assert await perf(port, *WINDOWS, "-r", "2") == 2
    assert "Failed to obtain stable measurement within 2" in capsys.readouterr().err


@pytest.mark.slow
async def test_the_server_s_metrics_are_read_alongside(tmp_path, capsys):
    report = tmp_path / "report.csv"
    async with EchoHttpServer(Counters()) as port:
        arguments = ("--collect-metrics", "--metrics-url", f"127.0.0.1:{port}/metrics")
        more = ("--metrics-interval", "20", "--verbose-csv", "-f", str(report))
        assert await perf(port, *arguments, *more, *QUICK) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("  Server Prometheus Metrics: ")
    assert lines[start + 1 : start + 3] == ["    Avg GPU Utilization:", "      GPU-1 : 50%"]
    assert rows(report)[0]["Avg GPU Utilization"] == "GPU-1:0.5;"


@pytest.mark.parametrize("page", ["{", None])
async def test_metrics_that_cannot_be_read_end_the_run_before_it_begins(page):
    counters = Counters()
    counters.metrics = page
    async with EchoHttpServer(counters) as port:
        arguments = ("--collect-metrics", "--metrics-url", f"127.0.0.1:{port}/metrics")
        with pytest.raises(TritonError, match="metrics"):
            await perf(port, *arguments)


@pytest.mark.slow
async def test_an_interrupted_run_reports_what_there_is(capsys):
    async with EchoHttpServer(Counters()) as port:
        running = asyncio.create_task(perf(port, *WINDOWS, "-s", "0", "-r", "1000", "-v"))
        printed = ""
        while "Pass [1]" not in printed:
            await asyncio.sleep(0.01)
            printed += capsys.readouterr().out
        os.kill(os.getpid(), signal.SIGINT)
        assert await running == 130
    shown = capsys.readouterr()
    assert "Received exit signal." in shown.err
    assert "  Client: " in (printed + shown.out).splitlines()
    assert "Concurrency: 1, throughput: " in shown.out


async def test_a_second_interrupt_ends_a_run_at_once(capsys):
    async with EchoHttpServer(Counters()) as port:
        running = asyncio.create_task(perf(port, "-p", "100000"))
        while "Request concurrency" not in capsys.readouterr().out:  # noqa: ASYNC110 - printed
            await asyncio.sleep(0.01)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await running


def test_a_run_that_cannot_begin_is_an_error(capsys):
    assert main(["-m", "m", "-u", "127.0.0.1:1"]) == 99
    assert capsys.readouterr().err.startswith("error: cannot connect to 127.0.0.1:1")


def test_the_help_is_printed(capsys):
    assert main(["--help"]) == 0
    assert "--concurrency-range" in capsys.readouterr().out
