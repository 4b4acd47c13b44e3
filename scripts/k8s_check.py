# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Renders everything in k8s/ and checks it, without a cluster.

- Kubernetes' own kinds against its strict schemas, for each of `KUBE_VERSIONS`.
- By `k8s_validate.py`: custom kinds against their CRDs, references across objects, and what
  KubeRay, the shell and Ray's autoscaler read differently.
- checkov and hadolint, where they are installed: `make k8s-check` does.

No API server is asked: what its admission, quotas or webhooks would say is not known.

Usage: k8s_check.py [--output FOLDER] [FILE ...]

With files, these are checked, each as a bundle of its own, in place of k8s/.
Exit code: 0 nothing found, 1 findings.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import kubernetes_validate
import yaml
from k8s_render import ROOT, Manifest, RenderError, Rendering, renderings

KUBE_VERSIONS = ("1.30", "1.33", "1.37")
CHECKOV = ROOT / ".cache/checkov/bin/checkov"
HADOLINT = Path(sys.executable).parent / "hadolint"
VALIDATOR = ROOT / "scripts/k8s_validate.py"
KSERVE = ROOT / "k8s/kserve"
IMAGES = ROOT / "k8s/images"
EXTERNAL = ROOT / "k8s/external.yaml"
# checkov knows pods and Deployments, not templates of operators: these hold all of them.
_FOR_CHECKOV = ("overlays-production", "raycluster-job", "single-pod-hpa")
_CORE_GROUPS = (
    "",
    "apps",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
)


def main() -> int:
    """Check, print findings, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--output", type=Path, help="keep what was rendered in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="manta-k8s-") as scratch:
        output = options.output or Path(scratch) / "rendered"
        try:
            bundles = _given(options.files) if options.files else _ours(Path(scratch))
        except RenderError as error:
            print(error)
            return 1
        return _report(len(bundles), check(bundles, output, is_ours=not options.files))


def check(bundles: list[Rendering], output: Path, *, is_ours: bool = True) -> Iterator[str]:
    """Check bundles of manifests.

    Args:
        bundles: What is applied together.
        output: Where they are written, for the programs that look at them.
        is_ours: Whether they are k8s/, so that images belong to it.

    Yields:
        A line for each finding.
    """
    output.mkdir(parents=True, exist_ok=True)
    for each in bundles:
        (output / f"{each.name}.yaml").write_text(each.text)
    yield from core_schemas(bundles)
    yield from validate(sorted(output.glob("*.yaml")))
    if is_ours:
        yield from checkov([output / f"{name}.yaml" for name in _FOR_CHECKOV])
        yield from hadolint(sorted(IMAGES.glob("*ontainerfile*")))


def core_schemas(bundles: Iterable[Rendering]) -> Iterator[str]:
    """Check Kubernetes' own kinds against its schemas; the same object only once."""
    seen: dict[str, tuple[str, Manifest]] = {}
    for bundle in bundles:
        try:
            manifests = bundle.manifests
        except yaml.YAMLError as error:
            yield f"{bundle.name}: not YAML: {error}"
            continue
        for each in manifests:
            if str(each.get("apiVersion")).rpartition("/")[0] in _CORE_GROUPS:
                seen.setdefault(json.dumps(each, sort_keys=True), (bundle.name, each))
    for name, each in seen.values():
        label = f"{name}: {each.get('kind')}/{(each.get('metadata') or {}).get('name')}"
        for version in KUBE_VERSIONS:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = ".".join(map(str, error.path))
                yield f"{label}: {path}: {error.message} [Kubernetes {version}]"
            except kubernetes_validate.SchemaNotFoundError:
                yield f"{label}: Kubernetes {version} has no {each.get('apiVersion')}"


def validate(files: list[Path]) -> Iterator[str]:
    """Run k8s_validate.py, a bundle for each file."""
    command = [sys.executable, str(VALIDATOR), "--external", str(EXTERNAL), *map(str, files)]
    yield from _findings(command)


def checkov(files: list[Path]) -> Iterator[str]:
    """Run checkov."""
    if not CHECKOV.exists():
        print(f"no {CHECKOV.relative_to(ROOT)}: checkov was left out; 'make k8s-check' installs it")
        return
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            shutil.copy(file, folder)
        config = str(ROOT / "k8s/checkov.yaml")
        yield from _findings([str(CHECKOV), "-d", folder, "--config-file", config])


def hadolint(files: list[Path]) -> Iterator[str]:
    """Run hadolint."""
    if files:
        yield from _findings([str(HADOLINT), *map(str, files)])


def _findings(command: list[str]) -> Iterator[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield from filter(None, (done.stdout + done.stderr).splitlines())


def _ours(scratch: Path) -> list[Rendering]:
    return [*renderings(scratch / "combinations"), kserve()]


def kserve() -> Rendering:
    """Put runtimes and samples of KServe into one bundle: the samples name the runtimes."""
    texts = [file.read_text() for file in sorted(KSERVE.glob("*.yaml"))]
    return Rendering("kserve", "\n---\n".join(texts))


def _given(files: Iterable[Path]) -> list[Rendering]:
    return [Rendering(file.stem, file.read_text()) for file in files]


def _report(count: int, findings: Iterable[str]) -> int:
    found = 0
    for line in findings:
        found += 1
        print(line)
    print(f"{count} renderings, {'nothing found' if not found else f'{found} lines of findings'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
