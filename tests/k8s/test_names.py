# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests name metrics, flags and values that there are."""

import json
import re
from pathlib import Path

import pytest
import yaml
from k8s_render import CHART, KUSTOMIZE, Rendering, combinations, overlays

from cluster import __version__
from cluster.options.parsing import from_mapping, parse_options
from tests.support.server import ROOT

MONITORING = KUSTOMIZE / "components/monitoring"
METRIC = re.compile(r"\b(?:nv|manta)_[a-z0-9_]+")


def test_rules_and_dashboards_name_metrics_of_the_server() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "deployments/metrics").rglob("*.py"))
    files = [*MONITORING.glob("*.yaml"), *MONITORING.glob("dashboards/*.json")]
    files += [*KUSTOMIZE.glob("single-pod-*/*.yaml"), *KUSTOMIZE.glob("single-pod-*/*/*.yaml")]
    named = {name for path in files for name in METRIC.findall(path.read_text())}
    named -= {"manta_"}
    assert len(named) > 20
    assert {name for name in named if f'"{name}"' not in sources} <= {
        name for name in named if name.endswith("_")
    }


def test_every_alert_is_in_the_operations_guide() -> None:
    guide = (ROOT / "docs/operations.md").read_text()
    rule = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    alerts = [
        each["alert"]
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    ]
    assert [name for name in alerts if f"`{name}`" not in guide] == []


@pytest.mark.parametrize("which", ["overlays", "charts"])
def test_arguments_in_manifests_are_flags(which: str, request: pytest.FixtureRequest) -> None:
    seen: dict[str, Rendering] = request.getfixturevalue(which)
    count = 0
    for rendering in seen.values():
        for each in rendering.manifests:
            if each["kind"] == "RayService":
                config = yaml.safe_load(each["spec"]["serveConfigV2"])
                arguments = config["applications"][0]["args"]
                from_mapping(arguments)
                count += 1
            if each["kind"] == "ConfigMap" and "server.yaml" in each["data"]:
                text = each["data"]["server.yaml"]
                parse_options(["--config=given"], {}, {"given": text}.__getitem__)
                count += 1
    assert count > 5


def test_entrypoint_of_the_job_is_a_command_of_manta() -> None:
    job = yaml.safe_load((KUSTOMIZE / "raycluster-job/rayjob.yaml").read_text())
    program, command, *flags = job["spec"]["entrypoint"].split()
    assert (program, command) == ("manta", "serve")
    parse_options(flags, {}, str)


def test_there_are_sixty_renderings(tmp_path: Path) -> None:
    files_of_values = list((CHART / "ci").glob("*.yaml"))
    assert len(overlays()) + len(combinations(tmp_path)) + len(files_of_values) >= 60


def test_versions_are_those_of_manta() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    images = {
        tag
        for path in (ROOT / "k8s").rglob("*.yaml")
        for tag in re.findall(r"ghcr\.io/manta-serve/manta:([0-9.]+)", path.read_text())
    }
    assert images == {__version__}


def test_dashboards_have_panels_that_ask_something() -> None:
    for path in MONITORING.glob("dashboards/*.json"):
        panels = json.loads(path.read_text())["panels"]
        assert len(panels) > 5
        assert all(target["expr"] for panel in panels for target in panel["targets"])
