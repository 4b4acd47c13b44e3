# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is applied together, and what is said of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from k8s_validator.manifests import Finding, Manifest
from k8s_validator.pods import endpoints_of, pods_of


@dataclass
class External:
    """What a bundle leaves to others: ``resources`` that exist elsewhere, ``skip`` of rules for an object."""

    resources: frozenset[str] = frozenset()
    skip: tuple[tuple[str, frozenset[str]], ...] = ()

    @classmethod
    def read(cls, path: str | None) -> External:
        if path is None:
            return cls()
        body = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        skip = tuple((str(e["object"]), frozenset(e["rules"])) for e in body.get("skip") or [])
        return cls(frozenset(body.get("resources") or []), skip)

    def excuses(self, finding: Finding) -> bool:
        return any(
            re.fullmatch(pattern.replace("*", ".*"), finding.object) and finding.rule in names
            for pattern, names in self.skip
        )


class Bundle:
    """All objects that are applied together."""

    def __init__(self, manifests: list[Manifest], external: External) -> None:
        self.manifests = manifests
        self.external = external
        self.pods = [pod for m in manifests for pod in pods_of(m)]
        self.endpoints = {e.name: e for m in manifests for e in endpoints_of(m)}
        self.found: list[Finding] = []

    def say(self, manifest: Manifest, path: str, rule: str, message: str) -> None:
        self.found.append(Finding(manifest.source, manifest.id, path, rule, message))

    def exists(self, kind: str, name: str) -> bool:
        if f"{kind}/{name}" in self.external.resources:
            return True
        if kind == "Service" and name in self.endpoints:
            return True
        return any(m.kind == kind and m.name == name for m in self.manifests)
