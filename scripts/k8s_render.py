# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Renders what is in k8s/: Kustomize's folders, combinations of its components, Helm's chart.

Kustomize is the program of that name or kubectl's; Helm's engine comes as the package
helm-python-sdk, so that no cluster and no helm is needed.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).resolve().parent.parent
KUSTOMIZE = ROOT / "k8s/kustomize"
CHART = ROOT / "k8s/helm/manta"
# The form of a chart's release in the cluster; objects are called after it.
RELEASE = "manta"
NAMESPACE = "default"
_PROGRAMS = (("kustomize", "build"), ("kubectl", "kustomize"))

GROUPS = ((), ("gpu",), ("mig",), ("gpu", "mig"))
REPOSITORIES = (
    "repository-configmap",
    "repository-pvc",
    "repository-s3",
    "repository-gcs",
    "repository-azure",
)
FEATURES = (
    ("monitoring", "ingress"),
    ("autoscaling", "gcs-ft-redis", "ipv6", "credential-files", "fork-server"),
    ("autoscaling", "gcs-ft-redis", "tls", "monitoring", "gateway", "restricted"),
)

Manifest = dict[str, Any]


class RenderError(Exception):
    """Something cannot be rendered; the message is the renderer's own."""


@dataclass(frozen=True)
class Rendering:
    """A bundle of manifests that is applied together.

    Attributes:
        name: File name, without its ending.
        text: YAML documents.
    """

    name: str
    text: str

    @property
    def manifests(self) -> list[Manifest]:
        """The objects."""
        return [each for each in yaml.load_all(self.text, Loader=yaml.CSafeLoader) if each]


def renderings(scratch: Path) -> list[Rendering]:
    """Render everything: each overlay, each combination of components, each file of values.

    Args:
        scratch: Where the kustomizations of the combinations are written.
    """
    with ThreadPoolExecutor(2) as pool:
        folders = {**overlays(), **combinations(scratch)}
        done = list(pool.map(lambda each: Rendering(each[0], kustomize(each[1])), folders.items()))
    return [*done, *charts()]


def overlays() -> dict[str, Path]:
    """Return the folders that are meant to be applied, by name."""
    folders = [path.parent for path in KUSTOMIZE.glob("*/kustomization.yaml")]
    folders += [path.parent for path in KUSTOMIZE.glob("overlays/*/kustomization.yaml")]
    return {
        str(folder.relative_to(KUSTOMIZE)).replace("/", "-"): folder for folder in sorted(folders)
    }


def combinations(scratch: Path) -> dict[str, Path]:
    """Write a kustomization for each combination of groups, repository and features."""
    return dict(_combination(scratch, *each) for each in product(GROUPS, REPOSITORIES, FEATURES))


def _combination(
    scratch: Path, groups: tuple[str, ...], repository: str, features: tuple[str, ...]
) -> tuple[str, Path]:
    components = (*groups, repository, *features)
    name = "-".join(("cpu", *groups, repository.partition("-")[2], str(FEATURES.index(features))))
    folder = scratch / name
    folder.mkdir(parents=True)
    there = Path(os.path.relpath(KUSTOMIZE, folder))
    text = yaml.safe_dump(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [str(there / "base")],
            "components": [str(there / "components" / each) for each in components],
        }
    )
    (folder / "kustomization.yaml").write_text(text)
    return name, folder


def kustomize(folder: Path) -> str:
    """Render a kustomization.

    Raises:
        RenderError: There is no program for it, or it refuses the folder.
    """
    command = next((each for each in _PROGRAMS if shutil.which(each[0])), None)
    if command is None:
        raise RenderError(
            "neither kustomize nor kubectl is on PATH; install one of them to render"
            f" {folder.relative_to(ROOT)}"
        )
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RenderError(f"{folder}: {done.stderr.strip()}")
    return done.stdout


def charts() -> Iterator[Rendering]:
    """Render the chart with its defaults and with each file of values in ci/."""
    yield Rendering("helm-default", chart({}))
    for path in sorted((CHART / "ci").glob("*.yaml")):
        yield Rendering(f"helm-{path.stem}", chart(values(path)))


def values(path: Path) -> dict[str, Any]:
    """Read a file of values."""
    return yaml.safe_load(path.read_text()) or {}


def chart(given: Mapping[str, Any]) -> str:
    """Render the chart, after its lint and the schema of its values.

    Raises:
        RenderError: A value is refused, or a template fails.
    """
    folder = _packed_chart()
    try:
        said = helm_python.lint(folder, dict(given), strict=True)["messages"]
        # 1 is advice.
        faults = [each for each in said if each["severity"] > 1]
        if faults:
            raise RenderError("; ".join(f"{each['path']}: {each['error']}" for each in faults))
        rendered = _render_chart(given)
    except helm_python.HelmError as error:
        raise RenderError(str(error)) from error
    documents = [text for name, text in sorted(rendered.items()) if name.endswith(".yaml")]
    return "\n---\n".join(documents)


def notes(given: Mapping[str, Any]) -> str:
    """Render what helm prints after an installation."""
    return _render_chart(given)[f"{CHART.name}/templates/NOTES.txt"]


def _render_chart(given: Mapping[str, Any]) -> dict[str, str]:
    with helm_python.Chart.load(_packed_chart()) as loaded:
        loaded.validate_schema(dict(given))
        return loaded.render(dict(given), name=RELEASE, namespace=NAMESPACE)


@cache
def _packed_chart() -> str:
    # As a package holds it: files in place of links, of which the engine tells at each load.
    scratch = Path(tempfile.mkdtemp(prefix="manta-chart-"))
    atexit.register(shutil.rmtree, scratch)
    folder = scratch / CHART.name
    shutil.copytree(CHART, folder)
    return str(folder)
