# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The chart makes the objects that Kustomize's overlays make."""

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import k8s_render as render
import k8s_values
import pytest
import yaml

from cluster.fork_server import joined

# Files of values that are called after the rendering they equal.
SAME = sorted(
    path.stem
    for path in (render.CHART / "ci").glob("*.yaml")
    if path.stem.startswith(("overlays-", "single-pod"))
)
# What only Helm, or only Kustomize, can have.
HELMS_LABELS = {
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}
DIGESTS = {"manta-serve/environment", "manta-serve/options"}


def test_chart_without_values_is_the_base(
    overlays: dict[str, render.Rendering], charts: dict[str, render.Rendering]
) -> None:
    assert _comparable(charts["default"]) == _comparable(overlays["base"])


@pytest.mark.parametrize("name", SAME)
def test_chart_makes_the_objects_of_the_overlay(
    name: str, overlays: dict[str, render.Rendering], charts: dict[str, render.Rendering]
) -> None:
    from_kustomize = _comparable(overlays[name])
    from_helm = _comparable(charts[name])
    assert sorted(from_helm) == sorted(from_kustomize)
    for key, each in from_kustomize.items():
        assert from_helm[key] == each, key


def test_every_overlay_has_its_values(overlays: dict[str, render.Rendering]) -> None:
    assert set(overlays) - {"base", "raycluster-job"} == set(SAME)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"mode": "cluster"}, "mode"),
        ({"image": {"tags": "1"}}, "tags"),
        ({"groups": {"cpu": {"minReplicas": -1}}}, "minReplicas"),
        ({"groups": {"a100": {"gpus": 1}}}, "gpus"),
        ({"models": {"repositories": []}}, "repositories"),
        ({"image": {"digest": "sha256:12"}}, "digest"),
        ({"tls": {"enabled": "yes"}}, "enabled"),
        ({"head": {"rayResources": {"CPU": 0}}}, "CPU"),
    ],
)
def test_schema_refuses_value(given: dict[str, Any], named: str) -> None:
    with pytest.raises(render.RenderError, match=named):
        render.chart(given)


def test_rendering_twice_gives_the_same() -> None:
    # A chart with random values would have KubeRay replace the cluster at each upgrade.
    path = render.CHART / "ci/overlays-production.yaml"
    assert render.chart(render.values(path)) == render.chart(render.values(path))


@pytest.mark.parametrize("folder", ["base", "raycluster-job"])
def test_one_component_or_value_has_ray_start_fork_workers(tmp_path: Path, folder: str) -> None:
    there = Path(os.path.relpath(render.KUSTOMIZE, tmp_path))
    used = {
        "resources": [str(there / folder)],
        "components": [str(there / "components/fork-server")],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(used))
    rendering = render.Rendering("forking", render.kustomize(tmp_path))
    hook = _named(rendering, "ConfigMap")["data"]["RAY_START_HOOK"]
    module, _, name = hook.rpartition(".")
    assert getattr(importlib.import_module(module), name) is joined.begin
    if folder == "base":
        text = render.chart({"ray": {"forkServer": True}})
        assert _comparable(render.Rendering("value", text)) == _comparable(rendering)


def test_nothing_is_forked_unless_asked_for(
    overlays: dict[str, render.Rendering], charts: dict[str, render.Rendering]
) -> None:
    asked = {name for name, each in {**overlays, **charts}.items() if "RAY_START_HOOK" in each.text}
    assert asked == {"components-gcs-autoscaling"}


def test_own_group_is_rendered_with_its_resources() -> None:
    group = {
        "enabled": True,
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 3,
        "rayResources": {"CPU": "16", "memory": "48Gi"},
        "resources": {
            "requests": {"cpu": "16", "memory": "64Gi"},
            "limits": {"memory": "64Gi"},
        },
    }
    text = render.chart({"groups": {"large": group}})
    service = _named(render.Rendering("own", text), "RayService")
    groups = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert [each["groupName"] for each in groups] == ["cpu", "large"]
    assert groups[1]["resources"] == {"CPU": "16", "memory": "48Gi"}


def test_arguments_beat_the_charts_own() -> None:
    text = render.chart({"arguments": {"strict_readiness": False, "wait_for_models": "attempted"}})
    service = _named(render.Rendering("arguments", text), "RayService")
    application = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"][0]
    assert application["args"]["strict_readiness"] is False
    assert application["args"]["wait_for_models"] == "attempted"


def test_notes_say_how_to_reach_the_server() -> None:
    assert "wait rayservice/manta" in render.notes({})
    assert "rollout status deployment/manta" in render.notes({"mode": "single"})
    assert "The repository is empty" not in render.notes({"models": {"sample": True}})


def test_every_value_has_a_description() -> None:
    schema = json.loads((render.CHART / "values.schema.json").read_text())
    assert not list(_without_description(schema, ""))


def _without_description(schema: dict[str, Any], path: str) -> list[str]:
    inner = schema.get("properties") or {}
    if schema.get("description") or not inner:
        return [] if schema.get("description") else [path]
    return [
        each for name, sub in inner.items() for each in _without_description(sub, f"{path}.{name}")
    ]


def _comparable(rendering: render.Rendering) -> dict[str, Any]:
    text = re.sub(r"\bmanta-single-[0-9a-z]{10}\b", "manta-config", rendering.text)
    text = text.replace("manta-single", "manta")
    objects = {}
    for each in render.Rendering(rendering.name, text).manifests:
        is_test = "helm.sh/hook" in (each["metadata"].get("annotations") or {})
        if each["kind"] == "Namespace" or is_test:
            continue
        objects[f"{each['kind']}/{each['metadata']['name']}"] = _plain(each)
    return objects


def _plain(each: dict[str, Any]) -> dict[str, Any]:
    """Take away what differs for good reason, and read what is text."""
    metadata = each["metadata"]
    metadata.pop("namespace", None)
    labels = metadata.get("labels") or {}
    metadata["labels"] = {k: v for k, v in labels.items() if k not in HELMS_LABELS}
    spec = each.get("spec") or {}
    if each["kind"] == "RayService":
        spec["serveConfigV2"] = yaml.safe_load(spec["serveConfigV2"])
        cluster = spec["rayClusterConfig"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            _plain_pod(group["template"])
            for container in group["template"]["spec"]["containers"]:
                container["ports"].sort(key=lambda port: port["containerPort"])
    if each["kind"] == "Deployment":
        _plain_pod(spec["template"])
    if each["kind"] == "ConfigMap":
        each["data"] = {name: _read(name, text) for name, text in each["data"].items()}
    return each


def _plain_pod(template: dict[str, Any]) -> None:
    annotations = template["metadata"].get("annotations") or {}
    template["metadata"]["annotations"] = {k: v for k, v in annotations.items() if k not in DIGESTS}


def _read(name: str, text: str) -> Any:
    read = {".yaml": yaml.safe_load, ".json": json.loads}.get(Path(name).suffix)
    return read(text) if read else text.rstrip()


def _named(rendering: render.Rendering, kind: str) -> dict[str, Any]:
    return next(each for each in rendering.manifests if each["kind"] == kind)


def test_table_of_values_is_that_of_the_chart() -> None:
    assert k8s_values.PAGE.read_text() == k8s_values.page(), "run scripts/k8s_values.py"
