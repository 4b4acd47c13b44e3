# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the comparison with Triton, without any server."""

import importlib
import json
import os
import subprocess
import sys
import zlib
from types import ModuleType

import pytest

from tests.support.server import ROOT

# Has a child whose environment has no mark and another that ends after it has used the CPU.
FAMILY = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.4: pass"])
child = subprocess.Popen(["sleep", "60"], env={})
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> "Scripts":
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return Scripts()


class Scripts:
    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(f"bench_{name}")


@pytest.mark.parametrize("mark", ["ours", "that of a title"])
def test_a_process_tree_has_children_without_the_mark_and_the_time_of_ended_ones(
    script: Scripts, mark: str
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", FAMILY],
        env={**os.environ, script.servers.MARK: "ours"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    target = script.servers.Target("manta", 0, 0, mark, pid=parent.pid)
    found = target.processes()
    parent.stdin.close()
    parent.stdout.close()
    parent.wait(30)
    assert found.keys() == {parent.pid, child}
    assert found[parent.pid] >= 0.3
    assert not target.processes()


def test_names_are_unique_and_models_are_written(script: Scripts) -> None:
    cases = script.cases.all_cases(onnx_on_both=True)
    assert len({case.name for case in cases}) == len(cases)
    onnx = {"add_sub_onnx", "identity_onnx"}
    assert {case.model for case in cases} <= script.models.MODELS.keys() | onnx
    assert {case.on_manta for case in cases} <= {"", *onnx}


@pytest.mark.parametrize(
    ("what", "limit", "ratio", "text"),
    [
        ("infer/s", 2.0, 2.0, "infer/s >= 2.0: met"),
        ("infer/s", 2.0, 1.9, "infer/s >= 2.0: **missed**"),
        ("p50", 0.6, 0.6, "p50 <= 0.6: met"),
        ("CPU", 0.35, 0.4, "CPU <= 0.35: **missed**"),
        ("CPU", 0.35, None, "CPU <= 0.35: no result"),
    ],
)
def test_a_bar_says_whether_it_is_met(
    script: Scripts, what: str, limit: float, ratio: float | None, text: str
) -> None:
    assert script.report.bar(what, limit, ratio) == text


def test_a_row_has_the_ratios_of_the_medians(script: Scripts) -> None:
    result = script.measure.Result
    case = script.cases.Case("a", "m", "http", 16, bars={"infer/s": 2.0, "CPU": 0.4})
    reference = [result(1000, 10, 40, 100), result(2000, 20, 80, 200), None]
    manta = [result(3000, 12, 30, 90)] * 3
    line = script.report.line(script.report.Row(case, reference, manta))
    assert line == (
        "| a | 1,500 | 3,000 | **2.00** | 15 / 12 | **0.80** | 0.50 | 150 / 90 | **0.60** "
        "| infer/s >= 2.0: met; CPU <= 0.4: **missed** |"
    )
    columns = script.report.header(script.report.COLUMNS).splitlines()
    assert {each.count("|") for each in (*columns, line)} == {len(script.report.COLUMNS) + 1}


def test_a_row_without_a_result_says_so(script: Scripts) -> None:
    case = script.cases.Case("a", "m", "http", 16, bars={"infer/s": 2.0})
    line = script.report.line(script.report.Row(case, [None], []))
    assert line.startswith("| a | no result | no result |")
    assert line.endswith("| infer/s >= 2.0: no result |")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_request_is_what_it_says(script: Scripts, coding: str) -> None:
    head, _, body = script.load.compressed("m", coding, 250).http.partition(b"\r\n\r\n")
    assert f"Content-Encoding: {coding}\r\n".encode() in head
    assert head.endswith(f"Content-Length: {len(body)}".encode())
    # Of either kind.
    plain = zlib.decompress(body, wbits=zlib.MAX_WBITS | 32)
    header = json.loads(plain[: -250 * 4])
    assert header["inputs"][0]["parameters"]["binary_data_size"] == 250 * 4
    assert f"Inference-Header-Content-Length: {len(plain) - 1000}\r\n".encode() in head


def test_every_framework_has_models_of_both_sizes(script: Scripts) -> None:
    models, frameworks = script.framework_models, script.frameworks.FRAMEWORKS
    named = {name for name, each in frameworks.items() if each.open is not None}
    assert models.WRITERS.keys() == named
    assert {"small", "large"} <= models.NETWORKS.keys() & models.FORESTS.keys()


def test_model_bound_is_compared_with_the_bare_loop_over_as_large_batches(script: Scripts) -> None:
    report = script.backends_report
    # A call of four rows takes 4 ms, so the bare loop has 1,000 rows a second.
    runs = [report.Run(rate, 3.8, 4000.0) for rate in (960.0, 950.0, 940.0)]
    row = report.ModelBound("f", runs, [8000.0, 8200.0, 8100.0])
    assert row.line() == "| f | 8.1 | 3.8 | 1,000 | 950 | **0.95** | >= 0.95: met |"


@pytest.mark.parametrize(
    ("call_us", "rate", "allowed", "met"),
    [
        # As fast as the reference.
        (50.0, 9000.0, 1.0, True),
        # 400 us more for 4 rows, where a request takes 100 us in all.
        (450.0, 4500.0, 0.5, True),
        (450.0, 4400.0, 0.5, False),
        (50.0, 8900.0, 1.0, False),
    ],
)
def test_overhead_bound_may_be_slower_by_what_the_framework_s_own_call_is(
    script: Scripts, call_us: float, rate: float, allowed: float, met: bool
) -> None:
    report = script.backends_report
    reference = report.Run(10_000.0, 4.0, 50.0)
    row = report.OverheadBound("f", [reference], [report.Run(rate, 4.0, call_us)])
    assert row.allowed == pytest.approx(allowed)
    assert row.line().endswith("either: met |" if met else "either: **missed** |")


def test_memory_is_what_is_beyond_the_identity_s_and_the_framework_s_import(
    script: Scripts,
) -> None:
    report = script.backends_report
    row = report.Memory("f", instance=180.0, identity=60.0, imports=100.0, in_use=110.0)
    assert row.line() == "| f | 180 | 60 | 100 | **+20** | <= 25: met | +10 |"
    assert report.Sharing(400.0, 160.0).line() == "| 400 | 160 | **0.40** | <= 0.6: met |"


def test_tables_have_a_cell_for_each_column(script: Scripts) -> None:
    report = script.backends_report
    run = report.Run(1.0, 1.0, 1.0)
    found = report.Report(
        [report.ModelBound("f", [run], [1.0])],
        [report.OverheadBound("f", [run], [run])],
        [report.Memory("f", 1.0, 1.0, 1.0, 1.0)],
        report.Sharing(1.0, 1.0),
        {"ingress": [], "controller": ["libtorch"]},
    )
    text = found.text(1)
    for table in text.split("\n\n"):
        assert len({line.count("|") for line in table.splitlines()}) <= 1
    assert "imports no framework: **missed** (2 processes) {'controller': ['libtorch']}" in text
