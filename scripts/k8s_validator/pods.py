# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pods and Services, real or as KubeRay and KServe make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from k8s_validator.manifests import Manifest


@dataclass
class Pod:
    """A pod that some object makes, real or as its operator would."""

    owner: Manifest
    path: str
    labels: dict[str, str]
    spec: dict[str, Any]
    role: str  # deployment, job, ray-head, ray-worker, kserve
    extra_ports: dict[str, int] = field(default_factory=dict)
    wild_labels: frozenset[str] = frozenset()  # keys whose values the operator invents

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [c for c in self.spec.get("containers") or [] if isinstance(c, dict)]

    @cached_property
    def ports(self) -> dict[str, int]:
        found = dict(self.extra_ports)
        for container in self.containers:
            for port in container.get("ports") or []:
                found[str(port.get("name") or port.get("containerPort"))] = port.get(
                    "containerPort"
                )
        return found

    def has_port(self, port: Any) -> bool:
        return (
            port in self.ports
            if isinstance(port, str)
            else port in self.ports.values() or not self.ports
        )


@dataclass
class Endpoint:
    """A Service, real or as an operator makes it."""

    name: str
    labels: dict[str, str]
    ports: dict[str, tuple[int, str]]  # name -> (port, appProtocol)


def pods_of(manifest: Manifest) -> Iterator[Pod]:
    spec, kind = manifest.spec, manifest.kind
    if kind == "Pod":
        yield Pod(
            manifest,
            "spec",
            dict((manifest.body.get("metadata") or {}).get("labels") or {}),
            spec,
            "deployment",
        )
    elif kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        yield _templated(manifest, spec.get("template"), "spec.template", "deployment")
    elif kind == "Job":
        yield _templated(manifest, spec.get("template"), "spec.template", "job")
    elif kind == "CronJob":
        job = ((spec.get("jobTemplate") or {}).get("spec")) or {}
        yield _templated(manifest, job.get("template"), "spec.jobTemplate.spec.template", "job")
    elif kind in ("RayCluster", "RayService", "RayJob"):
        yield from _ray_pods(manifest)
    elif kind in ("ServingRuntime", "ClusterServingRuntime"):
        yield Pod(manifest, "spec", dict(spec.get("labels") or {}), spec, "kserve")
    elif kind == "InferenceService":
        for part in ("predictor", "transformer", "explainer"):
            if isinstance(spec.get(part), dict) and spec[part].get("containers"):
                yield Pod(
                    manifest,
                    f"spec.{part}",
                    dict(spec[part].get("labels") or {}),
                    spec[part],
                    "kserve",
                )


def _templated(manifest: Manifest, template: Any, path: str, role: str) -> Pod:
    template = template if isinstance(template, dict) else {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    return Pod(manifest, path + ".spec", dict(labels), template.get("spec") or {}, role)


def ray_cluster(manifest: Manifest) -> tuple[dict[str, Any], str]:
    if manifest.kind == "RayService":
        return manifest.spec.get("rayClusterConfig") or {}, "spec.rayClusterConfig"
    if manifest.kind == "RayJob":
        return manifest.spec.get("rayClusterSpec") or {}, "spec.rayClusterSpec"
    return manifest.spec, "spec"


def ray_groups(manifest: Manifest) -> Iterator[tuple[dict[str, Any], str, str]]:
    cluster, base = ray_cluster(manifest)
    if isinstance(cluster.get("headGroupSpec"), dict):
        yield cluster["headGroupSpec"], f"{base}.headGroupSpec", "ray-head"
    for index, group in enumerate(cluster.get("workerGroupSpecs") or []):
        yield group, f"{base}.workerGroupSpecs.{index}", "ray-worker"


def _ray_pods(manifest: Manifest) -> Iterator[Pod]:
    for group, path, role in ray_groups(manifest):
        pod = _templated(manifest, group.get("template"), path + ".template", role)
        node = role.removeprefix("ray-")
        pod.labels |= {
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": node,
            "app.kubernetes.io/created-by": "kuberay-operator",
            "ray.io/group": "headgroup" if role == "ray-head" else str(group.get("groupName")),
        }
        pod.labels.setdefault("app.kubernetes.io/name", "kuberay")
        if manifest.kind == "RayCluster":
            pod.labels["ray.io/cluster"] = manifest.name
            pod.wild_labels = frozenset({"ray.io/identifier"})
        else:
            pod.wild_labels = frozenset({"ray.io/cluster", "ray.io/identifier"})
        if manifest.kind == "RayService":
            pod.labels["ray.io/serve"] = (
                "true"  # the head's follows its health, unless it is excluded
            )
            if role == "ray-head" and manifest.spec.get("excludeHeadPodFromServeSvc"):
                pod.labels["ray.io/serve"] = "false"
        pod.labels |= {k: str(v) for k, v in (group.get("labels") or {}).items()}
        pod.extra_ports = {"metrics": 8080}
        if role == "ray-head" and not any(c.get("ports") for c in pod.containers[:1]):
            pod.extra_ports |= {
                "client": 10001,
                "gcs-server": 6379,
                "dashboard": 8265,
                "serve": 8000,
            }
        yield pod


def endpoints_of(manifest: Manifest) -> Iterator[Endpoint]:
    if manifest.kind == "Service":
        ports = {
            str(p.get("name") or p.get("port")): (p.get("port"), str(p.get("appProtocol") or ""))
            for p in manifest.spec.get("ports") or []
        }
        yield Endpoint(manifest.name, dict((manifest.body["metadata"]).get("labels") or {}), ports)
    if manifest.kind in ("RayCluster", "RayService"):
        head = next((p for p in _ray_pods(manifest) if p.role == "ray-head"), None)
        if head is None:
            return
        ports = {n: (p, "") for n, p in head.ports.items()}
        yield Endpoint(f"{manifest.name}-head-svc", {"ray.io/node-type": "head"}, ports)
        if manifest.kind == "RayService":
            serve = {n: p for n, p in ports.items() if n == "serve" or n.startswith("serve-")}
            given = manifest.spec.get("serveService") or {}
            for port in (given.get("spec") or {}).get("ports") or []:
                if str(port.get("name")) in serve or not serve:
                    serve[str(port.get("name"))] = (
                        port.get("port"),
                        str(port.get("appProtocol") or ""),
                    )
            meta = given.get("metadata") or {}
            name = str(meta.get("name") or f"{manifest.name}-serve-svc")
            labels = dict(meta.get("labels") or {}) | {
                "ray.io/serve": f"{manifest.name}-serve",
                "ray.io/originated-from-cr-name": manifest.name,
            }
            yield Endpoint(name, labels, serve)
    if manifest.kind == "InferenceService":
        yield Endpoint(f"{manifest.name}-predictor", {}, {"http": (80, "")})
