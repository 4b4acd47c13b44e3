# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What KServe refuses, or ignores in some of its modes."""

from __future__ import annotations

from collections import Counter

from k8s_validator.bundle import Bundle
from k8s_validator.manifests import Manifest


def check_kserve(bundle: Bundle, manifest: Manifest) -> None:
    spec = manifest.spec
    if manifest.kind.endswith("ServingRuntime"):
        if not any(c.get("name") == "kserve-container" for c in spec.get("containers") or []):
            bundle.say(
                manifest,
                "spec.containers",
                "kserve",
                "one container must be called kserve-container",
            )
        auto = Counter(
            (f.get("name"), f.get("priority"))
            for f in spec.get("supportedModelFormats") or []
            if f.get("autoSelect") and not f.get("version")
        )
        for (name, _), count in auto.items():
            if count > 1:
                bundle.say(
                    manifest,
                    "spec.supportedModelFormats",
                    "kserve",
                    f"{name} twice with one priority",
                )
        return
    predictor = spec.get("predictor") or {}
    mode = str(
        ((manifest.body.get("metadata") or {}).get("annotations") or {}).get(
            "serving.kserve.io/deploymentMode"
        )
        or ""
    )
    ports = [
        p
        for c in [*(predictor.get("containers") or []), predictor.get("model") or {}]
        for p in c.get("ports") or []
    ]
    if mode in ("", "Serverless", "Knative") and len(ports) > 1:
        bundle.say(
            manifest,
            "spec.predictor",
            "kserve",
            "Knative allows one port; choose h2c for gRPC or http1",
        )
    for port in ports:
        if mode in ("Serverless", "Knative") and port.get("name") not in ("h2c", "http1", "", None):
            bundle.say(
                manifest,
                "spec.predictor",
                "kserve",
                f"Knative knows the port names h2c and http1, not {port.get('name')}",
            )
    if mode in ("RawDeployment", "Standard") and predictor.get("canaryTrafficPercent") is not None:
        bundle.say(
            manifest,
            "spec.predictor.canaryTrafficPercent",
            "kserve",
            "is ignored outside Knative mode; use spec.canary",
        )
    if mode in ("RawDeployment", "Standard") and predictor.get("minReplicas") == 0:
        annotations = (manifest.body.get("metadata") or {}).get("annotations") or {}
        if annotations.get("serving.kserve.io/autoscalerClass") != "keda":
            bundle.say(
                manifest,
                "spec.predictor.minReplicas",
                "kserve",
                "0 needs Knative mode, or autoscalerClass keda",
            )
    runtime = (predictor.get("model") or {}).get("runtime")
    if runtime and not any(
        bundle.exists(k, str(runtime)) for k in ("ServingRuntime", "ClusterServingRuntime")
    ):
        bundle.say(
            manifest,
            "spec.predictor.model.runtime",
            "ref-missing",
            f"runtime {runtime} is neither here nor declared external",
        )
