# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.command import main
from manta_tools.perf.genai.merging import MergeOptions, merge, parse_merge
from manta_tools.perf.options.parsing import UsageError

MS = 1_000_000
CONFIG = {
    "endpoint": {"type": "chat", "backend": "tensorrtllm", "streaming": True},
    "input": {"goodput": {"request_latency": 1000.0}},
    "output": {"artifact_directory": "/somewhere/m-openai-chat-concurrency1"},
    "tokenizer": {"name": ""},
}


def row(start_ms, *parts):
    message = {"messages": [{"role": "user", "content": "how are you"}]}
    texts = [json.dumps({"choices": [{"delta": {"content": text}}]}) for _, text in parts]
    return {
        "timestamp": start_ms * MS,
        "request_inputs": {"payload": json.dumps(message)},
        "response_timestamps": [came_ms * MS for came_ms, _ in parts],
        "response_outputs": [{"response": f"data: {text}\n\n"} for text in texts],
    }


def write_run(directory, rows, rate, config=CONFIG):
    directory.mkdir(parents=True)
    experiment = {"experiment": {"mode": "concurrency", "value": 1}, "requests": rows}
    export = {"experiments": [experiment], "version": "1", "service_kind": "openai"}
    metrics = {
        "request_throughput": {"unit": "requests/sec", "avg": rate},
        "request_goodput": {"unit": "requests/sec", "avg": rate / 2},
        "input_config": config,
    }
    (directory / "profile_export.json").write_text(json.dumps(export))
    (directory / "profile_export_genai_perf.json").write_text(json.dumps(metrics))
    (directory / "inputs.json").write_text("[]")


def test_runs_at_the_same_time_add_their_rates(tmp_path, capsys):
    write_run(tmp_path / "in" / "one", [row(0, (50, " a"), (60, " b"))], 3.0)
    write_run(tmp_path / "in" / "two", [row(0, (150, " a"), (160, " b c"))] * 2, 4.0)
    arguments = ["-d", str(tmp_path / "in"), "--artifact-dir", str(tmp_path / "out")]
    assert main(["process-export-files", *arguments]) == 0
    directory = tmp_path / "out" / "m-openai-chat-concurrency1"
    found = json.loads((directory / "profile_export_genai_perf.json").read_text())
    assert found["request_throughput"]["avg"] == 7.0
    assert found["request_goodput"]["avg"] == 3.5
    assert found["request_count"]["avg"] == 3.0
    assert found["time_to_first_token"]["avg"] == pytest.approx(350 / 3)
    assert found["output_sequence_length"]["max"] == 3.0
    export = json.loads((directory / "profile_export.json").read_text())
    assert len(export["experiments"][0]["requests"]) == 3
    assert "Files of 2 runs are in" in capsys.readouterr().out


def test_a_directory_without_runs_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="has no run; expected folders"):
        merge(MergeOptions(tmp_path))


def test_runs_of_different_endpoints_are_refused(tmp_path):
    write_run(tmp_path / "one", [], 1.0)
    other = {**CONFIG, "endpoint": {**CONFIG["endpoint"], "type": "completions"}}
    write_run(tmp_path / "two", [], 1.0, other)
    with pytest.raises(InvalidArgumentError, match="differ in the endpoint"):
        merge(MergeOptions(tmp_path))


@pytest.mark.parametrize("text", ["{", "[]", '{"experiments": []}', '{"experiments": [7]}'])
def test_files_of_no_run_are_refused(tmp_path, text):
    write_run(tmp_path / "one", [], 1.0)
    (tmp_path / "one" / "profile_export.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match=r"profile_export.json"):
        merge(MergeOptions(tmp_path))


def test_options_of_a_merge_are_genai_perfs(capsys):
    assert parse_merge([]) == MergeOptions()
    with pytest.raises(UsageError, match="unrecognized arguments"):
        parse_merge(["--no-such"])
    assert main(["process-export-files", "--help"]) == 0
    assert "--input-directory" in capsys.readouterr().out
