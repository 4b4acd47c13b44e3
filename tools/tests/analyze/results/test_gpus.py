# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Of which configurations metrics of GPUs are told."""

from dataclasses import replace

import pytest

from backends.config.pbtxt import parse_pbtxt
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial
from manta_tools.analyze.results.files import ALL_MEASUREMENTS, read_all, write_results
from manta_tools.analyze.results.rows import Found, is_on_cpus
from manta_tools.analyze.space.variants import VariantNames

CONFIG = parse_pbtxt(
    'name: "m" backend: "python" instance_group [ { kind: KIND_GPU count: 1 } ]', "m"
)
SETTINGS = (Setting("m"), Setting("m", (("instance_group.kind", "KIND_CPU"),)))


@pytest.fixture
def written(tmp_path):
    def write(*, always):
        outcomes = tuple(
            Measured(
                Trial(Candidate((setting,)), (Load("m", "concurrency", 1.0),)),
                {"m": {"perf_throughput": 100.0}},
                gpu_metrics={"GPU-1": {"gpu_used_memory": 77.0}},
            )
            for setting in SETTINGS
        )
        found = Found(("m",), Judge((Goal("m"),)), outcomes, {"m": CONFIG}, {}, VariantNames())
        options = replace(
            AnalyzeOptions(), export_path=str(tmp_path), always_report_gpu_metrics=always
        )
        write_results([found], {}, options, lambda _: None)
        of_gpus = (tmp_path / "results" / options.filename_model_gpu).read_text()
        return read_all(options, ["m"]), of_gpus

    return write


def test_a_configuration_on_cpus_alone_is_reported_without_gpus(written, tmp_path):
    rows, of_gpus = written(always=False)
    told = {row["model_config_path"]: row.get("gpu_used_memory") for row in rows}
    assert told == {"m_config_default": "77", "m_config_0": None}
    assert "m_config_0" not in of_gpus
    assert (tmp_path / "results" / ALL_MEASUREMENTS).read_text().count("77") == 2


def test_it_is_reported_with_gpus_where_that_is_asked_for(written):
    rows, of_gpus = written(always=True)
    assert [row["gpu_used_memory"] for row in rows] == ["77", "77"]
    assert "m_config_0" in of_gpus


@pytest.mark.parametrize(
    ("shown", "expected"),
    [("1:CPU", True), ("1:CPU, 2:CPU + 1:CPU", True), ("1:CPU, 1:GPU", False), ("2:AUTO", False),
     ("", False)],
)  # fmt: skip
def test_one_instance_elsewhere_may_use_a_gpu(shown, expected):
    assert is_on_cpus({"instance_group": shown}) is expected
