# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""All checks of a bundle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from k8s_validator.bundle import Bundle
from k8s_validator.containers import LABEL_VALUE, check_pod
from k8s_validator.kserve import check_kserve
from k8s_validator.manifests import Finding, Manifest
from k8s_validator.objects import (
    check_configmap,
    check_monitor,
    check_route,
    check_rules,
    check_scaler,
    check_selects_pods,
    check_service,
)
from k8s_validator.ray import check_ray
from k8s_validator.schemas import Schemas

LABEL_NAME = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
DNS_1123 = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
DNS_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


CHECKS: list[tuple[set[str], Callable[[Bundle, Manifest], None]]] = [
    ({"Service"}, check_service),
    ({"ServiceMonitor", "PodMonitor"}, check_monitor),
    ({"PodDisruptionBudget", "NetworkPolicy"}, check_selects_pods),
    ({"HorizontalPodAutoscaler", "ScaledObject"}, check_scaler),
    ({"HTTPRoute", "GRPCRoute"}, check_route),
    ({"PrometheusRule"}, check_rules),
    ({"ConfigMap"}, check_configmap),
    ({"RayCluster", "RayService", "RayJob"}, check_ray),
    ({"ClusterServingRuntime", "ServingRuntime", "InferenceService"}, check_kserve),
]


def check(bundle: Bundle, schemas: Schemas) -> list[Finding]:
    for manifest in bundle.manifests:
        if manifest.kind == "CustomResourceDefinition":
            schemas.add_crd(manifest.body)
    for manifest in bundle.manifests:
        for path, rule, message in schemas.errors(manifest):
            bundle.say(manifest, path, rule, message)
        check_names(bundle, manifest)
        for kinds, each in CHECKS:
            if manifest.kind in kinds:
                each(bundle, manifest)
    for pod in bundle.pods:
        check_pod(bundle, pod)
    twice = Counter((m.kind, m.namespace, m.name) for m in bundle.manifests)
    for manifest in bundle.manifests:
        if twice[manifest.kind, manifest.namespace, manifest.name] > 1:
            bundle.say(
                manifest, "metadata.name", "duplicate", "two objects of this kind have this name"
            )
    return list(dict.fromkeys(f for f in bundle.found if not bundle.external.excuses(f)))


def check_names(bundle: Bundle, manifest: Manifest) -> None:
    meta = manifest.body.get("metadata") or {}
    strict = manifest.kind in ("Service", "RayCluster", "RayService", "RayJob", "InferenceService")
    limit = {"Service": 63, "RayCluster": 53, "RayService": 47, "RayJob": 47}.get(
        manifest.kind, 253
    )
    pattern = DNS_1035 if strict else DNS_1123
    is_name = bool(pattern.match(manifest.name)) and len(manifest.name) <= limit
    if not is_name and manifest.group != "rbac.authorization.k8s.io":
        text = f"{manifest.name!r} is not a DNS name of at most {limit} characters"
        bundle.say(manifest, "metadata.name", "name", text)
    for key, value in (meta.get("labels") or {}).items():
        if (
            not LABEL_NAME.match(str(key))
            or not isinstance(value, str)
            or not LABEL_VALUE.match(value)
            or len(value) > 63
        ):
            bundle.say(manifest, f"metadata.labels.{key}", "name", f"{value!r} is not a label")
    if manifest.kind == "Secret":
        for key, value in (
            (manifest.body.get("stringData") or {}) | (manifest.body.get("data") or {})
        ).items():
            if value and not re.search(
                r"REPLACE|CHANGE[-_ ]?ME|PLACEHOLDER|\$\{", str(value), re.IGNORECASE
            ):
                bundle.say(
                    manifest,
                    f"data.{key}",
                    "secret-literal",
                    "a secret's value does not belong in a manifest",
                )
