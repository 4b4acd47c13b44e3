# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Validates Kubernetes manifests without a cluster.

Usage: k8s_validate.py [--kube-version 1.33] [--external FILE] [--skip RULE,...] [--values FILE]
                       PATH ...

Each PATH is one bundle, checked for itself and across its objects:

- a file, or `-` for standard input, of YAML documents;
- a folder: every `*.yaml` below it;
- a folder with a `kustomization.yaml`: what `kubectl kustomize` makes of it;
- a folder with a `Chart.yaml`: what Helm's engine makes of it, after its lint.

Core kinds are checked against the strict OpenAPI schemas of the package `kubernetes-validate`,
custom kinds against the CRDs in `k8s_validator/crds`: unknown fields are refused, and their CEL
rules are evaluated. PromQL is parsed. `--external` names what the bundle does not hold, and what
is excused: `resources: [Secret/redis]`, `skip: [{object: "RayService/*", rules: [ray-drain]}]`.

What it cannot see: admission webhooks, CEL rules about what an object was before, quotas,
defaults of controllers, and whether an image exists.

Exit code: 0 nothing found, 1 findings, 2 could not run.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import yaml
from k8s_validator.bundle import Bundle, External
from k8s_validator.checks import check
from k8s_validator.manifests import Finding, read_bundle
from k8s_validator.schemas import Schemas

CRDS = Path(__file__).resolve().parent / "k8s_validator/crds"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Validate Kubernetes manifests without a cluster.")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--kube-version", default="1.33")
    parser.add_argument("--crds", type=Path, default=CRDS)
    parser.add_argument("--external", metavar="FILE")
    parser.add_argument(
        "--values",
        action="append",
        default=[],
        metavar="FILE",
        help="for charts; may be given several times",
    )
    parser.add_argument("--skip", default="", help="rules to leave out, with commas")
    options = parser.parse_args(arguments)
    skip = {rule for rule in options.skip.split(",") if rule}
    try:
        schemas = Schemas(options.kube_version, options.crds)
        external = External.read(options.external)
        count, findings = 0, []
        for path in options.paths:
            said: list[Finding] = []
            manifests = read_bundle(path, options.values, said)
            count += len(manifests)
            findings += said + check(Bundle(manifests, external), schemas)
    except (OSError, ValueError, yaml.YAMLError, ImportError) as error:
        print(f"k8s_validate.py: {error}", file=sys.stderr)
        return 2
    findings = [f for f in findings if f.rule not in skip]
    for finding in findings:
        print(finding)
    kinds: dict[str, int] = defaultdict(int)
    for finding in findings:
        kinds[finding.rule] += 1
    print(
        f"{count} objects, {len(findings)} findings"
        + (f" ({', '.join(f'{k} {v}' for k, v in sorted(kinds.items()))})" if kinds else "")
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
