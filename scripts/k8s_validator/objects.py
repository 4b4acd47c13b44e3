# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what stands around pods: Services, monitors, scalers, routes, rules."""

from __future__ import annotations

import json
import re

from k8s_validator.bundle import Bundle
from k8s_validator.fields import matches
from k8s_validator.manifests import Manifest

try:
    import promql_parser
except ImportError:
    promql_parser = None


def check_service(bundle: Bundle, manifest: Manifest) -> None:
    selector = manifest.spec.get("selector")
    if not selector:
        return
    chosen = [
        p
        for p in bundle.pods
        if p.owner.namespace == manifest.namespace
        and matches({"matchLabels": selector}, p.labels, p.wild_labels)
    ]
    if not chosen:
        bundle.say(
            manifest, "spec.selector", "service-selector", f"no pod here has the labels {selector}"
        )
    for index, port in enumerate(manifest.spec.get("ports") or []):
        target = port.get("targetPort", port.get("port"))
        if chosen and not any(p.has_port(target) for p in chosen):
            bundle.say(
                manifest,
                f"spec.ports.{index}",
                "service-port",
                f"none of the selected pods has a port {target}",
            )


def check_monitor(bundle: Bundle, manifest: Manifest) -> None:
    selector = manifest.spec.get("selector")
    pod_monitor = manifest.kind == "PodMonitor"
    for index, each in enumerate(
        manifest.spec.get("podMetricsEndpoints" if pod_monitor else "endpoints") or []
    ):
        port = each.get("port")
        if pod_monitor:
            chosen = [p for p in bundle.pods if matches(selector, p.labels, p.wild_labels)]
            known = any(port in p.ports for p in chosen)
        else:
            chosen = [e for e in bundle.endpoints.values() if matches(selector, e.labels)]
            known = any(port in e.ports for e in chosen)
        if not chosen:
            bundle.say(
                manifest,
                "spec.selector",
                "monitor-selector",
                f"selects no {'pod' if pod_monitor else 'Service'} here",
            )
        elif port is not None and not known:
            bundle.say(
                manifest,
                f"spec.{index}.port",
                "monitor-port",
                f"nothing selected has a port called {port}",
            )


def check_selects_pods(bundle: Bundle, manifest: Manifest) -> None:
    key = "selector" if manifest.kind == "PodDisruptionBudget" else "podSelector"
    selector = manifest.spec.get(key)
    if selector in (None, {}):
        return
    if not any(matches(selector, p.labels, p.wild_labels) for p in bundle.pods):
        bundle.say(manifest, f"spec.{key}", "pod-selector", "selects no pod here")


def check_scaler(bundle: Bundle, manifest: Manifest) -> None:
    target = manifest.spec.get("scaleTargetRef") or {}
    kind, name = str(target.get("kind") or "Deployment"), str(target.get("name"))
    if not bundle.exists(kind, name):
        bundle.say(
            manifest,
            "spec.scaleTargetRef",
            "scale-target",
            f"{kind}/{name} is neither here nor declared external",
        )
    if kind in ("RayCluster", "RayService", "RayJob"):
        bundle.say(
            manifest,
            "spec.scaleTargetRef",
            "scale-target",
            f"{kind} has no scale subresource; Ray's autoscaler scales it",
        )
    for index, trigger in enumerate(manifest.spec.get("triggers") or []):
        if trigger.get("type") == "prometheus":
            check_promql(
                bundle,
                manifest,
                f"spec.triggers.{index}",
                str((trigger.get("metadata") or {}).get("query") or ""),
            )
    if manifest.kind == "ScaledObject":
        for index, trigger in enumerate(manifest.spec.get("triggers") or []):
            name = (trigger.get("authenticationRef") or {}).get("name")
            kind = (trigger.get("authenticationRef") or {}).get("kind") or "TriggerAuthentication"
            if name and not bundle.exists(kind, name):
                bundle.say(
                    manifest,
                    f"spec.triggers.{index}",
                    "ref-missing",
                    f"{kind}/{name} is neither here nor declared external",
                )


def check_route(bundle: Bundle, manifest: Manifest) -> None:
    for index, parent in enumerate(manifest.spec.get("parentRefs") or []):
        kind = str(parent.get("kind") or "Gateway")
        if not bundle.exists(kind, str(parent.get("name"))):
            bundle.say(
                manifest,
                f"spec.parentRefs.{index}",
                "ref-missing",
                f"{kind}/{parent.get('name')} is neither here nor declared external",
            )
    for number, rule in enumerate(manifest.spec.get("rules") or []):
        for index, backend in enumerate(rule.get("backendRefs") or []):
            where, name = f"spec.rules.{number}.backendRefs.{index}", str(backend.get("name"))
            if backend.get("kind", "Service") != "Service":
                continue
            endpoint = bundle.endpoints.get(name)
            if endpoint is None:
                if f"Service/{name}" not in bundle.external.resources:
                    bundle.say(
                        manifest,
                        where,
                        "route-backend",
                        f"Service/{name} is neither here nor declared external",
                    )
                continue
            port = next((p for p in endpoint.ports.values() if p[0] == backend.get("port")), None)
            if port is None:
                bundle.say(
                    manifest,
                    where,
                    "route-backend",
                    f"Service/{name} has no port {backend.get('port')}",
                )
            elif manifest.kind == "GRPCRoute" and port[1] not in (
                "kubernetes.io/h2c",
                "grpc",
                "https",
            ):
                bundle.say(
                    manifest,
                    where,
                    "route-backend",
                    f"port {port[0]} of Service/{name} needs appProtocol kubernetes.io/h2c for gRPC",
                )


def check_promql(bundle: Bundle, manifest: Manifest, path: str, expression: str) -> None:
    if promql_parser is None:
        return
    try:
        promql_parser.parse(expression)
    except Exception as error:
        bundle.say(manifest, path, "promql", f"{error}: {expression}")


def check_rules(bundle: Bundle, manifest: Manifest) -> None:
    for group in manifest.spec.get("groups") or []:
        for index, rule in enumerate(group.get("rules") or []):
            path = f"spec.groups.{group.get('name')}.rules.{index}"
            check_promql(bundle, manifest, path, str(rule.get("expr", "")))
            if bool(rule.get("alert")) == bool(rule.get("record")):
                bundle.say(manifest, path, "promql", "a rule has either alert or record")


def check_configmap(bundle: Bundle, manifest: Manifest) -> None:
    for key, text in (manifest.body.get("data") or {}).items():
        if not key.endswith(".json"):
            continue
        try:
            content = json.loads(text)
        except ValueError as error:
            bundle.say(manifest, f"data.{key}", "json", str(error))
            continue
        for panel in content.get("panels") or [] if isinstance(content, dict) else []:
            for target in panel.get("targets") or []:
                expression = re.sub(
                    r"\$\{?__(rate_interval|interval|range)\}?", "1m", str(target.get("expr") or "")
                )
                expression = re.sub(r"\$\{?\w+(:\w+)?\}?", "x", expression)
                if expression:
                    check_promql(
                        bundle, manifest, f"data.{key}: panel {panel.get('title')!r}", expression
                    )
    size = sum(len(str(v).encode()) for v in (manifest.body.get("data") or {}).values())
    if size > 1_000_000:
        bundle.say(manifest, "data", "size", f"{size} bytes; an object may have 1 MiB")
