# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What KubeRay refuses, and what it, the shell and Ray's autoscaler read differently."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import yaml

from k8s_validator.bundle import Bundle
from k8s_validator.containers import check_reference
from k8s_validator.fields import quantity, references
from k8s_validator.manifests import Loader, Manifest
from k8s_validator.pods import ray_cluster, ray_groups

GPU_KEY = re.compile(r"gpu$|nvidia\.com/mig-\d+g\.\d+gb$")  # as KubeRay recognises them
MIG_KEY = re.compile(r"nvidia\.com/mig-")


def check_ray(bundle: Bundle, manifest: Manifest) -> None:
    """What KubeRay's webhook and Ray's autoscaler refuse or get wrong; see kubernetes.md."""
    cluster, base = ray_cluster(manifest)
    autoscaling = bool(cluster.get("enableInTreeAutoscaling"))
    options = cluster.get("autoscalerOptions") or {}
    if not cluster and manifest.kind == "RayJob":
        return
    if not cluster.get("rayVersion"):
        bundle.say(
            manifest,
            f"{base}.rayVersion",
            "ray-version",
            "needed: probes and authentication depend on it",
        )
    outside = {k: v for k, v in cluster.items() if k not in ("headGroupSpec", "workerGroupSpecs")}
    for path, kind, name, key in references(outside, base):
        check_reference(bundle, manifest, path, kind, name, key)
    images = set()
    for group, path, role in ray_groups(manifest):
        pod = ((group.get("template") or {}).get("spec")) or {}
        container = (pod.get("containers") or [{}])[0]
        images.add(container.get("image"))
        params, named = group.get("rayStartParams") or {}, group.get("resources") or {}
        taken = {"num-cpus", "num-gpus", "memory", "resources"} & params.keys()
        if taken and named:
            bundle.say(
                manifest,
                path,
                "ray-resources",
                f"resources and rayStartParams {sorted(taken)} exclude each other",
            )
        if "labels" in params:
            bundle.say(
                manifest,
                path,
                "ray-resources",
                "rayStartParams.labels is refused; use labels of the group",
            )
        check_ray_resources(bundle, manifest, path, params, named)
        limits = (container.get("resources") or {}).get("limits") or {}
        gpus = {k for k in limits if GPU_KEY.search(k)}
        if len(gpus) > 1:
            bundle.say(manifest, path, "ray-resources", f"one kind of GPU a group: {sorted(gpus)}")
        if (
            autoscaling
            and any(MIG_KEY.match(k) for k in limits)
            and "num-gpus" not in params
            and "GPU" not in named
        ):
            bundle.say(
                manifest,
                path,
                "ray-resources",
                "the autoscaler does not read GPUs from a MIG limit: give resources.GPU or num-gpus",
            )
        if (
            any(k for k in limits if k.startswith("nvidia.com/mig-") and not GPU_KEY.search(k))
            and "num-gpus" not in params
            and "GPU" not in named
        ):
            bundle.say(
                manifest,
                path,
                "ray-resources",
                "KubeRay does not take this MIG name for a GPU (such as +me): give resources.GPU or num-gpus",
            )
        if container.get("command") or container.get("args"):
            text = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
            annotated = str(
                ((manifest.body.get("metadata") or {}).get("annotations") or {}).get(
                    "ray.io/overwrite-container-cmd"
                )
            )
            if annotated.lower() != "true" and "ray start" not in text:
                bundle.say(
                    manifest,
                    path,
                    "ray-command",
                    "command and args are put before 'ray start' with &&; they must end by themselves",
                )
        if (
            autoscaling
            and options.get("version") == "v2"
            and pod.get("restartPolicy") not in (None, "Never")
        ):
            bundle.say(
                manifest,
                path,
                "ray-autoscaler",
                "restartPolicy must be Never or unset with autoscaler v2",
            )
        if role == "ray-worker":
            low, high = group.get("minReplicas"), group.get("maxReplicas")
            if isinstance(low, int) and isinstance(high, int) and low > high:
                bundle.say(
                    manifest, path, "ray-autoscaler", f"minReplicas {low} above maxReplicas {high}"
                )
            for key in ("idleTimeoutSeconds", "priority"):
                if group.get(key) is not None and options.get("version") != "v2":
                    bundle.say(
                        manifest,
                        path,
                        "ray-autoscaler",
                        f"{key} needs autoscalerOptions.version v2",
                    )
        check_ray_pod(bundle, manifest, path, pod, container, role)
    if len(images) > 1:
        bundle.say(
            manifest,
            base,
            "ray-image",
            f"head and workers run different images: {sorted(map(str, images))}",
        )
    names = Counter(g.get("groupName") for g in cluster.get("workerGroupSpecs") or [])
    for name, count in names.items():
        if count > 1:
            bundle.say(manifest, base, "duplicate", f"two worker groups are called {name}")
    if manifest.kind == "RayService":
        check_ray_service(bundle, manifest, cluster)


def check_ray_resources(
    bundle: Bundle, manifest: Manifest, path: str, params: dict[str, Any], named: dict[str, Any]
) -> None:
    text = params.get("resources")
    if text is not None:
        # KubeRay trims quotes and parses; the autoscaler cuts one character at each end, drops backslashes and wants integers.
        try:
            first = json.loads(str(text).strip("'\"` "))
            second = json.loads(str(text)[1:-1].replace("\\", ""))
            if first != second or not all(isinstance(v, int) for v in second.values()):
                raise ValueError("amounts must be integers")  # noqa: TRY301 - told as what does not parse
        except ValueError as error:
            bundle.say(
                manifest,
                f"{path}.rayStartParams.resources",
                "ray-resources",
                f"must read '{{\"name\": 1}}' with the single quotes inside the string, so that KubeRay, its shell and the autoscaler agree: {error}",
            )
    for name, amount in named.items():
        if name.lower() in ("cpu", "gpu", "tpu", "memory") and name not in (
            "CPU",
            "GPU",
            "TPU",
            "memory",
        ):
            bundle.say(
                manifest,
                f"{path}.resources.{name}",
                "ray-resources",
                "KubeRay takes it, the autoscaler does not: CPU, GPU, TPU and memory are written so",
            )
        try:
            quantity(amount)
        except ValueError as error:
            bundle.say(manifest, f"{path}.resources.{name}", "quantity", str(error))


def check_ray_pod(
    bundle: Bundle,
    manifest: Manifest,
    path: str,
    pod: dict[str, Any],
    container: dict[str, Any],
    role: str,
) -> None:
    ports = {p.get("name"): p.get("containerPort") for p in container.get("ports") or []}
    if manifest.kind == "RayService" and role == "ray-head" and ports and "serve" not in ports:
        bundle.say(
            manifest,
            path,
            "ray-ports",
            "the head's first container needs a port called serve; the Service's ports are the head's serve and serve-*",
        )
    if manifest.kind == "RayService" and role == "ray-worker":
        probe = container.get("readinessProbe")
        if not probe:
            bundle.say(
                manifest,
                path,
                "probe",
                "no readinessProbe: the injected one needs bash, wget and 'success' in the answer of /-/healthz over plain HTTP",
            )
        elif not (probe.get("httpGet") or probe.get("exec") or probe.get("grpc")):
            bundle.say(manifest, path, "probe", "the readinessProbe does not ask the ingress")
    grace = pod.get("terminationGracePeriodSeconds", 30)
    drain = next(
        (
            e.get("value")
            for e in container.get("env") or []
            if e.get("name") == "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
        ),
        "30",
    )
    if role == "ray-worker" and manifest.kind != "RayJob" and float(drain or 0) + 5 > float(grace):
        bundle.say(
            manifest,
            path,
            "ray-drain",
            f"terminationGracePeriodSeconds {grace} leaves no time after Ray's drain of {drain} s",
        )
    memory = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    shm = next(
        (
            v
            for v in pod.get("volumes") or []
            if (v.get("emptyDir") or {}).get("medium") == "Memory"
        ),
        None,
    )
    if shm is not None and memory is not None and (shm["emptyDir"]).get("sizeLimit"):
        try:
            if quantity(shm["emptyDir"]["sizeLimit"]) > quantity(memory):
                bundle.say(
                    manifest,
                    path,
                    "quantity",
                    f"volume {shm.get('name')} in memory is larger than the container's limit of memory",
                )
        except ValueError:
            return


def check_ray_service(bundle: Bundle, manifest: Manifest, cluster: dict[str, Any]) -> None:
    path = "spec.serveConfigV2"
    try:
        config = yaml.load(str(manifest.spec.get("serveConfigV2") or ""), Loader=Loader) or {}
    except yaml.YAMLError as error:
        bundle.say(manifest, path, "ray-serve", f"not YAML: {error}")
        return
    applications = config.get("applications") or []
    if not applications:
        bundle.say(manifest, path, "ray-serve", "no applications: the service would never be ready")
    for app in applications:
        if not re.fullmatch(r"[\w.-]+[:.]\w+", str(app.get("import_path"))):
            bundle.say(
                manifest,
                path,
                "ray-serve",
                f"import_path {app.get('import_path')!r} is not module:attribute",
            )
        if (
            str(app.get("import_path", "")).startswith("manta.app")
            and config.get("proxy_location") != "Disabled"
        ):
            bundle.say(
                manifest,
                path,
                "ray-serve",
                "proxy_location must be Disabled: Serve's proxy would take the HTTP port",
            )
    for name, count in Counter(a.get("name") for a in applications).items():
        if count > 1:
            bundle.say(manifest, path, "duplicate", f"two applications are called {name}")
    strategy = manifest.spec.get("upgradeStrategy") or {}
    options = strategy.get("clusterUpgradeOptions") or {}
    if strategy.get("type") == "NewClusterWithIncrementalUpgrade":
        if not cluster.get("enableInTreeAutoscaling"):
            bundle.say(
                manifest,
                "spec.upgradeStrategy",
                "ray-upgrade",
                "an incremental upgrade needs enableInTreeAutoscaling",
            )
        if options.get("stepSizePercent", 0) > options.get("maxSurgePercent", 100):
            bundle.say(
                manifest,
                "spec.upgradeStrategy",
                "ray-upgrade",
                "stepSizePercent is above maxSurgePercent",
            )
    if (cluster.get("authOptions") or {}).get("enableK8sTokenAuth"):
        bundle.say(manifest, "spec", "ray-auth", "enableK8sTokenAuth is refused for a RayService")
    ft = cluster.get("gcsFaultToleranceOptions") or {}
    if ft.get("externalStorageNamespace"):
        bundle.say(
            manifest,
            "spec",
            "ray-ft",
            "a fixed externalStorageNamespace makes old and new cluster share state during an upgrade",
        )
