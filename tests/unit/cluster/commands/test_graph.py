# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

from cluster.commands.graph import graph_of, main, mermaid
from tests.support.stub_server import Stub


def tensor(name: str) -> dict[str, Any]:
    return {"name": name, "data_type": "TYPE_FP32", "dims": [4]}


def step(model: str, reads: dict[str, str], writes: dict[str, str]) -> dict[str, Any]:
    return {"model_name": model, "model_version": -1, "input_map": reads, "output_map": writes}


CONFIGS: dict[str, dict[str, Any]] = {
    "a": {
        "name": "a",
        "backend": "python",
        "input": [tensor("I")],
        "output": [tensor("O")],
        "model_transaction_policy": {"decoupled": True},
    },
    "inner": {
        "name": "inner",
        "platform": "ensemble",
        "input": [tensor("I")],
        "output": [tensor("O")],
        "ensemble_scheduling": {"step": [step("a", {"I": "I"}, {"O": "O"})]},
    },
    "e": {
        "name": "e",
        "platform": "ensemble",
        "max_batch_size": 8,
        "input": [tensor("X")],
        "output": [tensor("Y")],
        "ensemble_scheduling": {
            "step": [step("inner", {"I": "X"}, {"O": 'm"'}), step("a", {"I": 'm"'}, {"O": "Y"})]
        },
    },
}


def test_a_graph_has_steps_edges_and_the_graphs_of_nested_ensembles():
    graph = graph_of("e", CONFIGS.__getitem__)

    assert [each["model"] for each in graph["steps"]] == ["inner", "a"]
    assert graph["steps"][0]["graph"]["steps"][0]["model"] == "a"
    assert graph["edges"] == [
        {"tensor": "X", "from": None, "to": 0},
        {"tensor": 'm"', "from": 0, "to": 1},
        {"tensor": "Y", "from": 1, "to": None},
    ]
    assert graph["inputs"] == [{"name": "X", "datatype": "FP32", "dims": [4]}]


def test_a_condition_is_shown_with_the_tensor_it_waits_for():
    steps = [step("a", {"I": "X"}, {"O": "m"}), step("a", {"I": "X"}, {"O": "Y"})]
    conditions = {
        "condition.0": {"string_value": "!parameter:quick"},
        "condition.1": {"string_value": "m"},
    }
    ensemble = CONFIGS["e"] | {"ensemble_scheduling": {"step": steps}, "parameters": conditions}
    graph = graph_of("e", (CONFIGS | {"e": ensemble}).__getitem__)
    assert [each["condition"] for each in graph["steps"]] == ["!parameter:quick", "m"]
    assert {"tensor": "m", "from": 0, "to": 1} in graph["edges"]
    drawing = mermaid(graph)
    assert 'step0["a (decoupled) (if !parameter:quick)"]' in drawing
    assert 'step0 -->|"m"| step1' in drawing


def test_a_drawing_names_tensors_and_models():
    assert mermaid(graph_of("e", CONFIGS.__getitem__)).splitlines() == [
        "flowchart LR",
        '    inputs0(["X: FP32[4]"])',
        '    outputs0(["Y: FP32[4]"])',
        '    step0[["inner"]]',
        '    step1["a (decoupled)"]',
        '    inputs0 -->|"X"| step0',
        '    step0 -->|"m#quot;"| step1',
        '    step1 -->|"Y"| outputs0',
    ]


def test_a_model_that_is_no_ensemble_is_its_own_only_step():
    graph = graph_of("a", CONFIGS.__getitem__)

    assert [each["model"] for each in graph["steps"]] == ["a"]
    assert graph["decoupled"]


def test_the_configs_of_a_server_are_asked_for_by_any_url(capsys):
    with Stub() as stub:
        for name, config in CONFIGS.items():
            stub.answers["GET", f"/v2/models/{name}/config"] = (200, json.dumps(config).encode())
        assert main(["e", "--url", stub.url]) == 0
        assert capsys.readouterr().out.startswith("flowchart LR\n")
        assert main(["e", "--url", stub.url.removeprefix("http://"), "--json", "-H", "A: b"]) == 0
        assert stub.asked[-1][2]["a"] == "b"
        assert main(["nobody", "--url", stub.url]) == 1
    captured = capsys.readouterr()
    assert [each["model"] for each in json.loads(captured.out)["steps"]] == ["inner", "a"]
    assert "404" in captured.err
