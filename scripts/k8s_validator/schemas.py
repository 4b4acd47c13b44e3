# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Schemas of kinds: Kubernetes' own, and those of CRDs as the API server reads them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from referencing import Registry, Resource

from k8s_validator.manifests import Manifest

try:
    import celpy
except ImportError:
    celpy = None


SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"


def structural(schema: Any, *, logical: bool = False) -> Any:
    """Turn a CRD's structural schema into a JSON Schema that refuses unknown fields, as strict decoding does."""
    if not isinstance(schema, dict):
        return schema
    plain = (
        "enum",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "multipleOf",
        "required",
        "minimum",
        "maximum",
    )
    out: dict[str, Any] = {key: schema[key] for key in plain if key in schema}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and bound in out:
            out[exclusive] = out.pop(bound)
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    elif kind:
        out["type"] = [kind, "null"] if schema.get("nullable") else kind
    if schema.get("nullable") and "enum" in out:
        out["enum"] = [*out["enum"], None]
    if "items" in schema:
        out["items"] = structural(schema["items"], logical=logical)
    if "required" in out:  # the API server fills in defaults first
        given = {
            name
            for name, sub in (schema.get("properties") or {}).items()
            if isinstance(sub, dict) and "default" in sub
        }
        out["required"] = [name for name in out["required"] if name not in given]
    if "properties" in schema:
        out["properties"] = {
            name: structural(sub, logical=logical) for name, sub in schema["properties"].items()
        }
        if schema.get("x-kubernetes-embedded-resource"):
            for name in ("apiVersion", "kind", "metadata"):
                out["properties"].setdefault(name, {})
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        out["additionalProperties"] = structural(extra, logical=logical)
    elif (
        extra is None
        and kind == "object"
        and not logical
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        out["additionalProperties"] = False
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema and not (word == "anyOf" and schema.get("x-kubernetes-int-or-string")):
            out[word] = [structural(sub, logical=True) for sub in schema[word]]
    if "not" in schema:
        out["not"] = structural(schema["not"], logical=True)
    return out


def without_nulls(value: Any) -> Any:
    """Drop what is null, as the API server does before it looks."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


class Schemas:
    """Finds the schema of a kind and checks objects with it."""

    def __init__(self, kube_version: str, crds: Path) -> None:
        self._folder = SCHEMAS / f"v{kube_version}.0-local-strict"
        if not self._folder.is_dir():
            known = ", ".join(kubernetes_validate.utils.all_versions())
            raise ValueError(f"no schemas for Kubernetes {kube_version}; there are: {known}")
        definitions = json.loads((self._folder / "_definitions.json").read_text())
        self._registry = Resource.from_contents(definitions) @ Registry()
        self._meta = {
            "$ref": definitions["$id"] + "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        }
        self._crds: dict[tuple[str, str, str], dict[str, Any]] = {}
        for file in sorted(crds.glob("*.yaml")):
            self.add_crd(
                yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            )

    def add_crd(self, crd: dict[str, Any]) -> None:
        spec = crd["spec"]
        for version in spec["versions"]:
            self._crds[spec["group"], version["name"], spec["names"]["kind"]] = version["schema"][
                "openAPIV3Schema"
            ]

    def errors(self, manifest: Manifest) -> Iterator[tuple[str, str, str]]:
        """Yield path, rule and message of each fault."""
        body = manifest.body
        version = str(body.get("apiVersion", "")).rpartition("/")[2]
        crd = self._crds.get((manifest.group, version, manifest.kind))
        if crd is not None:
            validator = self._custom(manifest.group, version, manifest.kind)
            shown = without_nulls({k: v for k, v in body.items() if k != "metadata"})
            yield from (self._render(e) for e in validator.iter_errors(shown))
            meta = jsonschema.Draft202012Validator(self._meta, registry=self._registry)
            yield from (
                ("metadata." + path, rule, text)
                for path, rule, text in map(self._render, meta.iter_errors(body.get("metadata")))
            )
            yield from rules(crd, body, "")
            return
        short = re.sub(r"\.[^/]*", "", manifest.group)
        stem = f"{manifest.kind.lower()}-{short + '-' if short else ''}{version}.json"
        if not self._is_core(manifest.group) or not (self._folder / stem).exists():
            served = sorted(
                v for g, v, k in self._crds if g == manifest.group and k == manifest.kind
            )
            hint = f"; the CRD here serves {', '.join(served)}" if served else ""
            yield (
                "apiVersion",
                "unknown-kind",
                f"no schema for {body.get('apiVersion')} {manifest.kind}{hint}",
            )
            return
        yield from (self._render(e) for e in self._core(stem).iter_errors(body))

    @staticmethod
    def _is_core(group: str) -> bool:
        return "." not in group or (
            group.endswith(".k8s.io") and not group.startswith(("gateway.", "metrics."))
        )

    @cache  # noqa: B019 - one instance a process
    def _core(self, stem: str) -> jsonschema.Draft202012Validator:
        return jsonschema.Draft202012Validator(
            json.loads((self._folder / stem).read_text()), registry=self._registry
        )

    @cache  # noqa: B019
    def _custom(self, group: str, version: str, kind: str) -> jsonschema.Draft202012Validator:
        schema = structural(self._crds[group, version, kind])
        schema["properties"].pop("metadata", None)
        schema.setdefault("required", [])
        if kind not in ("ClusterServingRuntime", "ServingRuntime"):
            schema["required"] = [
                *schema["required"],
                *(["spec"] if "spec" not in schema["required"] else []),
            ]
        return jsonschema.Draft202012Validator(schema)

    @staticmethod
    def _render(error: jsonschema.ValidationError) -> tuple[str, str, str]:
        text = (
            error.message
            if len(error.message) < 300
            else error.message[:140] + " ... " + error.message[-140:]
        )
        return ".".join(str(part) for part in error.absolute_path), "schema", text


def rules(schema: dict[str, Any], value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Check what JSON Schema cannot say: keys of list-maps, members of list-sets, CEL rules."""
    if value is None or not isinstance(schema, dict):
        return
    for rule in schema.get("x-kubernetes-validations") or []:
        yield from cel(rule, value, path)
    if isinstance(value, dict):
        for name, sub in (schema.get("properties") or {}).items():
            if name in value:
                yield from rules(sub, value[name], f"{path}.{name}".lstrip("."))
        if isinstance(schema.get("additionalProperties"), dict):
            for name, each in value.items():
                if name not in (schema.get("properties") or {}):
                    yield from rules(
                        schema["additionalProperties"], each, f"{path}.{name}".lstrip(".")
                    )
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys")
        if schema.get("x-kubernetes-list-type") == "map" and keys:
            counts = Counter(
                json.dumps([e.get(k) for k in keys]) for e in value if isinstance(e, dict)
            )
        elif schema.get("x-kubernetes-list-type") == "set":
            counts = Counter(json.dumps(e) for e in value)
        else:
            counts = Counter()
        yield from (
            (path, "duplicate", f"given twice: {key}") for key, count in counts.items() if count > 1
        )
        for index, each in enumerate(value):
            yield from rules(schema.get("items") or {}, each, f"{path}.{index}")


@cache
def program(rule: str) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule))


def cel(rule: dict[str, Any], value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    text = rule["rule"]
    if celpy is None or "oldSelf" in text:  # transitions need two objects
        return
    try:
        holds = bool(program(text).evaluate({"self": celpy.json_to_cel(value)}))
    except Exception:
        return
    if not holds:
        yield path, "cel", rule.get("message") or text
