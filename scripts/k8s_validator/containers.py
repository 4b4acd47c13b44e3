# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of pods and their containers."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import Any

from k8s_validator.bundle import Bundle
from k8s_validator.fields import quantity, references
from k8s_validator.manifests import Manifest
from k8s_validator.pods import Pod

LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")


def check_pod(bundle: Bundle, pod: Pod) -> None:
    owner, base = pod.owner, pod.path
    volumes = {str(v.get("name")) for v in pod.spec.get("volumes") or []}
    for key, value in pod.labels.items():
        if not isinstance(value, str) or not LABEL_VALUE.match(value):
            bundle.say(owner, base, "name", f"label {key}: {value!r} is not a label value")
    names = Counter(
        str(c.get("name")) for c in [*pod.containers, *(pod.spec.get("initContainers") or [])]
    )
    for name, count in names.items():
        if count > 1:
            bundle.say(owner, base, "duplicate", f"two containers are called {name}")
    for path, kind, name, key in references(pod.spec, base):
        check_reference(bundle, owner, path, kind, name, key)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pod.spec.get(kind) or []):
            where = f"{base}.{kind}.{index}"
            check_container(bundle, pod, container, where, is_main=kind == "containers")
            for mount in container.get("volumeMounts") or []:
                if str(mount.get("name")) not in volumes | _injected_volumes(pod):
                    bundle.say(
                        owner,
                        f"{where}.volumeMounts",
                        "ref-missing",
                        f"no volume is called {mount.get('name')}",
                    )


def _injected_volumes(pod: Pod) -> set[str]:
    return {"shared-mem"} if pod.role.startswith("ray") else set()


def check_reference(
    bundle: Bundle, owner: Manifest, path: str, kind: str, name: str, key: str | None
) -> None:
    if owner.kind == "ClusterServingRuntime":
        return  # resolved in the namespace of each InferenceService
    target = next((m for m in bundle.manifests if m.kind == kind and m.name == name), None)
    if target is None:
        if f"{kind}/{name}" not in bundle.external.resources:
            bundle.say(
                owner, path, "ref-missing", f"{kind}/{name} is neither here nor declared external"
            )
    elif key is not None and kind in ("ConfigMap", "Secret"):
        held = {
            k for part in ("data", "stringData", "binaryData") for k in target.body.get(part) or {}
        }
        if key not in held:
            bundle.say(owner, path, "ref-missing", f"{kind}/{name} has no key {key}")


def check_container(
    bundle: Bundle, pod: Pod, container: dict[str, Any], where: str, *, is_main: bool
) -> None:
    owner = pod.owner
    check_image(
        bundle,
        owner,
        str(container.get("image") or ""),
        where,
        needed=pod.role != "kserve" or owner.kind != "InferenceService",
    )
    check_resources(bundle, owner, container.get("resources") or {}, where)
    check_security(bundle, pod, container.get("securityContext") or {}, where)
    ports = Counter(p.get("name") for p in container.get("ports") or [] if p.get("name"))
    for name, count in ports.items():
        if count > 1 or len(str(name)) > 15:
            bundle.say(
                owner,
                f"{where}.ports",
                "port",
                f"port name {name} is used twice or longer than 15 characters",
            )
    for env, count in Counter(e.get("name") for e in container.get("env") or []).items():
        if count > 1:
            bundle.say(owner, f"{where}.env", "duplicate", f"{env} is given twice")
    declared = {p.get("name") for p in container.get("ports") or []}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for handler in ("httpGet", "tcpSocket"):
            port = ((container.get(probe) or {}).get(handler) or {}).get("port")
            if isinstance(port, str) and port not in declared:
                bundle.say(
                    owner, f"{where}.{probe}", "port", f"the container has no port called {port}"
                )
    if is_main and pod.role == "deployment" and container.get("ports"):
        for probe in ("livenessProbe", "readinessProbe"):
            if not container.get(probe):
                bundle.say(owner, where, "probe", f"no {probe}")
    if (
        is_main
        and pod.role == "kserve"
        and not container.get("readinessProbe")
        and container.get("name") == "kserve-container"
        and owner.kind != "InferenceService"
    ):
        bundle.say(
            owner,
            where,
            "probe",
            "no readinessProbe: KServe would only try to connect to the first port",
        )


def check_image(bundle: Bundle, owner: Manifest, image: str, where: str, *, needed: bool) -> None:
    if not image:
        if needed:
            bundle.say(owner, where, "image-tag", "no image")
        return
    tail = image.rpartition("/")[2]
    if "@sha256:" in image:
        return
    tag = tail.partition(":")[2]
    if not tag or tag in ("latest", "main", "master", "nightly", "edge"):
        bundle.say(
            owner, f"{where}.image", "image-tag", f"{image} is not pinned to a version or digest"
        )


def check_resources(bundle: Bundle, owner: Manifest, resources: dict[str, Any], where: str) -> None:
    parsed: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    for part, amounts in parsed.items():
        for name, value in (resources.get(part) or {}).items():
            try:
                amounts[name] = quantity(value)
            except ValueError as error:
                bundle.say(owner, f"{where}.resources.{part}.{name}", "quantity", str(error))
    requests, limits = parsed["requests"], parsed["limits"]
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            bundle.say(
                owner, f"{where}.resources", "quantity", f"requests.{name} is above limits.{name}"
            )
    for name in requests | limits:
        if "/" in name:
            if limits.get(name) is None or requests.get(name, limits.get(name)) != limits[name]:
                bundle.say(
                    owner,
                    f"{where}.resources",
                    "quantity",
                    f"{name} needs limits, and requests equal to them",
                )
            elif limits[name] % 1:
                bundle.say(owner, f"{where}.resources", "quantity", f"{name} cannot be a fraction")
    for name in ("cpu", "memory"):
        if name not in requests and name not in limits:
            bundle.say(owner, f"{where}.resources", "resources", f"no request of {name}")
    if "memory" not in limits:
        bundle.say(owner, f"{where}.resources", "resources", "no limit of memory")


def check_security(bundle: Bundle, pod: Pod, context: dict[str, Any], where: str) -> None:
    whole = pod.spec.get("securityContext") or {}
    missing = []
    if not context.get("runAsNonRoot", whole.get("runAsNonRoot")):
        missing.append("runAsNonRoot: true")
    if context.get("allowPrivilegeEscalation") is not False:
        missing.append("allowPrivilegeEscalation: false")
    if "ALL" not in ((context.get("capabilities") or {}).get("drop") or []):
        missing.append("capabilities.drop: [ALL]")
    if ((context.get("seccompProfile") or whole.get("seccompProfile") or {}).get("type")) not in (
        "RuntimeDefault",
        "Localhost",
    ):
        missing.append("seccompProfile.type: RuntimeDefault")
    if context.get("readOnlyRootFilesystem") is not True:
        missing.append("readOnlyRootFilesystem: true")
    if missing:
        bundle.say(
            pod.owner, f"{where}.securityContext", "security", "missing " + ", ".join(missing)
        )
    if context.get("privileged") or pod.spec.get("hostNetwork") or pod.spec.get("hostPID"):
        bundle.say(
            pod.owner, f"{where}.securityContext", "security", "privileged, hostNetwork or hostPID"
        )
    for volume in pod.spec.get("volumes") or []:
        if "hostPath" in volume:
            bundle.say(
                pod.owner,
                pod.path + ".volumes",
                "security",
                f"hostPath in volume {volume.get('name')}",
            )
