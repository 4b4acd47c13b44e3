# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Plans from what a checkpoint holds."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import parse_pbtxt
from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.objectives import Goal, Judge
from manta_tools.analyze.plans import main
from manta_tools.analyze.records import Candidate, Load, Measured, Setting, Trial
from manta_tools.analyze.results.groups import configs_as_json, note_groups

CONFIG = parse_pbtxt(
    'name: "m" backend: "python" max_batch_size: 8 instance_group { kind: KIND_CPU count: 1 }', "m"
)


@pytest.fixture
def folder(tmp_path):
    with Checkpoint.resume(tmp_path, {"configs": configs_as_json({"m": CONFIG})}) as kept:
        note_groups(kept, [Judge((Goal("m"),))], {}, ())
        # Two instances do 100 a second at 5 ms, or 160 at 50 ms, with a core each at the latter.
        for level, throughput, p99_ms in ((1.0, 100.0, 5.0), (8.0, 160.0, 50.0)):
            trial = Trial(
                Candidate((Setting("m", (("instance_group.count", 2),)),)),
                (Load("m", "concurrency", level),),
            )
            metrics = {
                "perf_throughput": throughput,
                "perf_latency_p99": p99_ms,
                "cpu_per_inference": 12.5,
                "cpu_used_ram": 200.0,
            }
            kept.append(Measured(trial, {"m": metrics}))
    return tmp_path


def planned(folder, capsys, *arguments):
    assert main(["m", f"--checkpoint-directory={folder}", "--node-memory=1000", *arguments]) == 0
    return capsys.readouterr().out


def test_instances_and_nodes_follow_from_the_level_that_keeps_the_latency(folder, capsys):
    said = planned(folder, capsys, "--rate=390", "--node-cpus=2")
    assert "m: 5 instances for 390 infer/s" in said
    assert "m_config_0 (instance_group.count=2) at concurrency 8: 160.0 infer/s" in said
    assert "an instance takes: CPU 1, memory_mb 100, GPU 0" in said
    assert "nodes: 3, 0 of them for nodes that are lost" in said
    said = planned(folder, capsys, "--rate=390", "--node-cpus=2", "--latency-budget=10")
    assert "m: 8 instances for 390 infer/s" in said
    assert "at concurrency 1: 100.0 infer/s" in said


def test_spare_nodes_cost_and_assumptions_are_told(folder, capsys):
    said = planned(
        folder,
        capsys,
        "--rate=390",
        "--node-cpus=2",
        "--lost-nodes=1",
        "--price-per-node-hour=0.5",
    )
    assert "nodes: 4, 1 of them for nodes that are lost" in said
    assert "price: 2.00 an hour" in said
    assert "assumed: 3 nodes do 3 times what one does" in said


def test_a_load_that_nothing_measured_serves_is_refused(folder):
    with pytest.raises(InvalidArgumentError, match="perf_latency_p99 came to 5"):
        main(["m", "--rate=1", "--latency-budget=1", f"--checkpoint-directory={folder}"])
    with pytest.raises(InvalidArgumentError, match="nothing was measured of model 'other'"):
        main(["other", "--rate=1", f"--checkpoint-directory={folder}"])
