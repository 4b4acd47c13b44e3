# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make in manifests, each of which the check has to find."""

# ruff: noqa: E501 - a mistake is a line of the table

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import k8s_check
import pytest
from k8s_render import Rendering

from tests.support.server import ROOT

PRODUCTION = "overlays-production"
SINGLE = "single-pod-hpa"
JOB = "raycluster-job"


@dataclass(frozen=True)
class Mistake:
    """One change to what is right.

    Attributes:
        name: File name of the bundle.
        bundle: The rendering it is made in.
        right: Text of it, of which the first occurrence is changed.
        wrong: What stands there then.
        finding: Text of the finding.
    """

    name: str
    bundle: str
    right: str
    wrong: str
    finding: str


MISTAKES = (
    Mistake("unknown-field", SINGLE, "maxReplicas: 8", "maxReplica: 8", "maxReplica"),
    Mistake("removed-api", SINGLE, "autoscaling/v2", "autoscaling/v2beta2", "v2beta2"),
    Mistake("number-as-text", SINGLE, "minReplicas: 1", "minReplicas: one", "minReplicas"),
    Mistake("unknown-ray-field", PRODUCTION, "rayStartParams: {}", "rayStartParam: {}", "rayStartParam"),
    Mistake("probe-of-no-port", PRODUCTION, "port: serve\n", "port: http\n", "no port called http"),
    Mistake("monitor-of-no-port", PRODUCTION, "    port: serve-metrics\n", "    port: manta\n", "monitor-port"),
    Mistake("missing-secret", PRODUCTION, "name: manta-redis", "name: redis-of-old", "Secret/redis-of-old"),
    Mistake("missing-config", SINGLE, "configMap:\n          name: manta-single-", "configMap:\n          name: manta-double-", "ConfigMap/manta-double-"),
    Mistake("bad-quantity", PRODUCTION, "memory: 32Gi", "memory: 32GB", "is not a quantity"),
    Mistake("request-above-limit", SINGLE, "memory: 4Gi", "memory: 40Gi", "above limits.memory"),
    Mistake("half-a-gpu", PRODUCTION, "nvidia.com/gpu: 1", "nvidia.com/gpu: 500m", "nvidia.com/gpu"),
    Mistake("service-selects-nothing", SINGLE, "selector:\n    app.kubernetes.io/name: manta-single\n---", "selector:\n    app.kubernetes.io/name: manta-singel\n---", "service-selector"),
    Mistake("budget-selects-nothing", PRODUCTION, "app.kubernetes.io/component: entry", "app.kubernetes.io/component: door", "pod-selector"),
    Mistake("privileged", SINGLE, "readOnlyRootFilesystem: true\n", "readOnlyRootFilesystem: true\n          privileged: true\n", "privileged"),
    Mistake("writable-root", SINGLE, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem"),
    Mistake("latest-tag", SINGLE, "manta:0.1.0-cpu", "manta:latest", "not pinned"),
    Mistake("two-images", PRODUCTION, "manta:0.1.0-gpu", "manta:0.1.0-cpu", "ray-image"),
    Mistake("serve-proxy", PRODUCTION, "proxy_location: Disabled", "proxy_location: EveryNode", "ray-serve"),
    Mistake("import-path", PRODUCTION, "manta.app:build", "manta/app.py", "import_path"),
    Mistake("no-time-after-drain", PRODUCTION, "terminationGracePeriodSeconds: 90\n          tolerations", "terminationGracePeriodSeconds: 20\n          tolerations", "ray-drain"),
    Mistake("lower-case-cpu", PRODUCTION, 'CPU: "8"', 'cpu: "8"', "ray-resources"),
    Mistake("scaler-of-ray", SINGLE, "kind: Deployment\n    name: manta-single", "kind: RayService\n    name: manta-single", "no scale subresource"),
    Mistake("route-to-no-port", PRODUCTION, "port: 8001\n    matches", "port: 8003\n    matches", "no port 8003"),
    Mistake("grpc-without-h2c", PRODUCTION, "appProtocol: https", "appProtocol: http", "needs appProtocol"),
    Mistake("promql", PRODUCTION, "expr: absent(manta", "expr: absent((manta", "promql"),
    Mistake("no-ray-version", JOB, "  rayVersion: 2.60.0\n", "", "ray-version"),
    Mistake("long-name", PRODUCTION, "name: manta\n  namespace: manta\nspec:\n  excludeHead", "name: manta-with-a-name-that-leaves-no-room-for-more-characters\n  namespace: manta\nspec:\n  excludeHead", "at most 47"),
)  # fmt: skip


@pytest.fixture(scope="module")
def findings(overlays: dict[str, Rendering], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the check says of all of them, made one in each bundle."""
    bundles = []
    for each in MISTAKES:
        text = overlays[each.bundle].text
        assert each.right in text, each.name
        bundles.append(Rendering(each.name, text.replace(each.right, each.wrong, 1)))
    return list(k8s_check.check(bundles, tmp_path_factory.mktemp("mistakes"), is_ours=False))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistake_is_found(mistake: Mistake, findings: list[str]) -> None:
    own = [
        line
        for line in findings
        if f"{mistake.name}.yaml:" in line or line.startswith(f"{mistake.name}:")
    ]
    assert any(mistake.finding in line for line in own), own


def test_key_given_twice_is_found(overlays: dict[str, Rendering], tmp_path: Path) -> None:
    text = overlays[JOB].text.replace(
        "rayVersion: 2.60.0", "rayVersion: 2.60.0\n  rayVersion: 2.50.0"
    )
    said = list(k8s_check.check([Rendering("twice", text)], tmp_path, is_ours=False))
    assert any("'rayVersion' is given twice" in line for line in said), said


def test_a_finding_is_exit_code_1(overlays: dict[str, Rendering], tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(overlays[SINGLE].text.replace("maxReplicas: 8", "maxReplica: 8"))
    command = [sys.executable, str(ROOT / "scripts/k8s_check.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "maxReplica" in done.stdout
