# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Objects and where they come from: files, Kustomize, Helm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CLUSTER_SCOPED = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "PersistentVolume",
    "StorageClass",
    "PriorityClass",
    "IngressClass",
    "CustomResourceDefinition",
    "ClusterServingRuntime",
    "GatewayClass",
    "RuntimeClass",
}


@dataclass(frozen=True)
class Finding:
    source: str
    object: str
    path: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.source}: {self.object}: {self.path or '.'}: {self.message} [{self.rule}]"


@dataclass
class Manifest:
    """One object and where it came from."""

    body: dict[str, Any]
    source: str

    @property
    def kind(self) -> str:
        return str(self.body.get("kind"))

    @property
    def group(self) -> str:
        version = str(self.body.get("apiVersion", ""))
        return version.rpartition("/")[0]

    @property
    def name(self) -> str:
        meta = self.body.get("metadata") or {}
        return str(meta.get("name") or str(meta.get("generateName") or "").rstrip("-"))

    @property
    def namespace(self) -> str:
        return (
            ""
            if self.kind in CLUSTER_SCOPED
            else str((self.body.get("metadata") or {}).get("namespace") or "")
        )

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def spec(self) -> dict[str, Any]:
        spec = self.body.get("spec")
        return spec if isinstance(spec, dict) else {}


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Refuses a key that is given twice."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    own: set[Any] = set()  # what "<<" brings may be given again
    for key_node, _ in node.value:
        key = (
            loader.construct_object(key_node, deep=True)
            if key_node.tag != "tag:yaml.org,2002:merge"
            else None
        )
        if key is not None and key in own:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        own.add(key)
    loader.flatten_mapping(node)
    return {
        loader.construct_object(key, deep=True): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_documents(text: str, source: str) -> Iterator[Manifest]:
    for index, body in enumerate(yaml.load_all(text, Loader=Loader)):
        if body is None:
            continue
        if not isinstance(body, dict):
            raise ValueError(f"{source}: document {index} is not an object")  # noqa: TRY004 - of the input
        if str(body.get("kind")).endswith("List") and isinstance(body.get("items"), list):
            for item in body["items"]:
                yield Manifest(item, source)
        else:
            yield Manifest(body, source)


def read_bundle(path: str, values: list[str], findings: list[Finding]) -> list[Manifest]:
    if path == "-":
        return list(read_documents(sys.stdin.read(), "stdin"))
    here = Path(path)
    if here.is_dir() and any((here / f"kustomization.{e}").exists() for e in ("yaml", "yml")):
        done = subprocess.run(
            ["kubectl", "kustomize", path], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(f"{path}: kubectl kustomize: {done.stderr.strip()}")
        return list(read_documents(done.stdout, path))
    if here.is_dir() and (here / "Chart.yaml").exists():
        return read_chart(here, values, findings)
    files = [here] if here.is_file() else sorted([*here.rglob("*.yaml"), *here.rglob("*.yml")])
    if not files:
        raise ValueError(f"{path}: no manifests")
    return [
        m for file in files for m in read_documents(file.read_text(encoding="utf-8"), str(file))
    ]


def read_chart(chart: Path, values: list[str], findings: list[Finding]) -> list[Manifest]:
    import helm_python  # noqa: PLC0415 - for Linux on x86-64 only

    given: dict[str, Any] = {}
    for file in values:
        merge(given, yaml.load(Path(file).read_text(encoding="utf-8"), Loader=Loader) or {})
    messages = [
        m for m in helm_python.lint(str(chart), given, strict=True)["messages"] if m["severity"] > 1
    ]  # 1 is advice
    findings += [
        Finding(str(chart), "Chart", m["path"], "helm-lint", " ".join(m["error"].split()))
        for m in messages
    ]
    if any(m["severity"] > 2 for m in messages):
        return []
    with helm_python.Chart.load(str(chart)) as loaded:
        rendered = loaded.render(given, name="release", namespace="default")
    return [
        m
        for name, text in sorted(rendered.items())
        if not name.endswith(".txt")
        for m in read_documents(text, name)
    ]


def merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
