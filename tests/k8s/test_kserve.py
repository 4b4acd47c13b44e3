# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runtimes of KServe start Manta with what KServe's own Triton runtime gives Triton."""

from pathlib import Path
from typing import Any

import k8s_check
import pytest
from k8s_render import Rendering

from cluster.options.parsing import parse_options

# Of config/runtimes/kserve-tritonserver.yaml in KServe 0.20.
KSERVES_ARGUMENTS = [
    "tritonserver",
    "--model-store=/mnt/models",
    "--grpc-port=9000",
    "--http-port=8080",
    "--allow-grpc=true",
    "--allow-http=true",
]
RUNTIMES = [
    each for each in k8s_check.kserve().manifests if each["kind"].endswith("ServingRuntime")
]
assert RUNTIMES, "no runtime in k8s/kserve: its tests would be none"
SAMPLES = [each for each in k8s_check.kserve().manifests if each["kind"] == "InferenceService"]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda each: each["metadata"]["name"])
def test_runtime_has_the_arguments_of_kserves(runtime: dict[str, Any]) -> None:
    arguments = runtime["spec"]["containers"][0]["args"]
    assert arguments[: len(KSERVES_ARGUMENTS)] == KSERVES_ARGUMENTS
    options = parse_options(arguments[1:], {}, Path.read_text)
    assert (options.http_port, options.grpc_port) == (8080, 9000)
    assert options.model_repository == ("/mnt/models",)


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda each: each["metadata"]["name"])
def test_runtime_speaks_both_protocols_and_knows_the_formats(runtime: dict[str, Any]) -> None:
    spec = runtime["spec"]
    assert spec["protocolVersions"] == ["v2", "grpc-v2"]
    assert {"triton", "onnx", "pytorch", "tensorflow", "openvino_ir", "xgboost", "python"} <= {
        each["name"] for each in spec["supportedModelFormats"]
    }


def test_samples_use_formats_that_their_runtime_has() -> None:
    formats = {
        each["metadata"]["name"]: {row["name"] for row in each["spec"]["supportedModelFormats"]}
        for each in RUNTIMES
    }
    models = [each["spec"]["predictor"]["model"] for each in SAMPLES if _has_model(each)]
    assert models
    for model in models:
        assert model["modelFormat"]["name"] in formats[model["runtime"]]


def _has_model(sample: dict[str, Any]) -> bool:
    return "model" in sample["spec"]["predictor"]


def test_samples_without_a_runtime_have_arguments_of_manta() -> None:
    own = [each for each in SAMPLES if "containers" in each["spec"]["predictor"]]
    assert own
    for each in own:
        command, *flags = each["spec"]["predictor"]["containers"][0]["args"]
        assert command == "serve"
        parse_options(flags, {}, Path.read_text)


@pytest.mark.parametrize(
    ("right", "wrong", "finding"),
    [
        ("name: kserve-container", "name: manta", "kserve-container"),
        ("runtime: manta\n", "runtime: triton\n", "runtime triton"),
        ("scaleTarget: 16", "scaleTargets: 16", "scaleTargets"),
    ],
)
def test_mistake_is_found(right: str, wrong: str, finding: str, tmp_path: Path) -> None:
    text = k8s_check.kserve().text
    assert right in text
    said = list(
        k8s_check.check(
            [Rendering("kserve", text.replace(right, wrong, 1))], tmp_path, is_ours=False
        )
    )
    assert any(finding in line for line in said), said
