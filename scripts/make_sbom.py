# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes bills of materials: each distribution made here and all it needs, as they are installed.

CycloneDX 1.6 as JSON. The same environment gives the same files.

    python scripts/make_sbom.py [--output FOLDER] [--extra cpu ...]
"""

import argparse
import importlib.metadata
import json
import sys
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SERVER, TOOLS = "manta-serve", "manta-tools"


@cache
def metadata_of(name: str) -> Any:
    """Return what an installed distribution says of itself.

    Raises:
        PackageNotFoundError: It is not installed.
    """
    return importlib.metadata.metadata(name)


def version_of(name: str) -> str:
    """Return which version of a distribution is installed."""
    return str(metadata_of(name)["Version"])


def requirements_of(name: str, extras: Sequence[str]) -> Iterator[Requirement]:
    """Yield what an installed distribution needs here, with some of its extras."""
    for text in metadata_of(name).get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        marker = requirement.marker
        environments = [{"extra": extra} for extra in ("", *extras)]
        if marker is None or any(marker.evaluate(each) for each in environments):
            yield requirement


def closure(name: str, extras: Sequence[str]) -> dict[str, list[str]]:
    """Return the installed distributions that one needs, and each one's own needs, by name."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(canonicalize_name(name), tuple(sorted(extras)))]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        own = needs.setdefault(current[0], set())
        for requirement in requirements_of(*current):
            needed = canonicalize_name(requirement.name)
            try:
                metadata_of(needed)
            except importlib.metadata.PackageNotFoundError:
                # Of an extra that is not installed.
                continue
            own.add(needed)
            waiting.append((needed, tuple(sorted(requirement.extras))))
    return {each: sorted(own) for each, own in sorted(needs.items())}


def component(name: str) -> dict[str, Any]:
    """Return the entry of an installed distribution."""
    metadata, version = metadata_of(name), version_of(name)
    made: dict[str, Any] = {
        "type": "application" if name in {SERVER, TOOLS} else "library",
        "bom-ref": reference(name),
        "name": metadata["Name"],
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
    }
    licence = metadata["License-Expression"]
    text = (metadata["License"] or "").strip().split("\n")[0]
    if licence:
        made["licenses"] = [{"expression": licence}]
    elif text:
        made["licenses"] = [{"license": {"name": text[:200]}}]
    if metadata["Summary"]:
        made["description"] = metadata["Summary"]
    return made


def reference(name: str) -> str:
    """Return what the document calls a distribution."""
    return f"{name}@{version_of(name)}"


def make_sbom(distribution: str, extras: Sequence[str]) -> dict[str, Any]:
    """Return the document of a distribution."""
    needs = closure(distribution, extras)
    components = [component(name) for name in needs if name != distribution]
    dependencies = [
        {"ref": reference(name), "dependsOn": [reference(each) for each in own]}
        for name, own in needs.items()
    ]
    content = json.dumps([components, dependencies], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": component(distribution)},
        "components": components,
        "dependencies": dependencies,
    }


def main() -> int:
    """Write the files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--extra", nargs="*", default=["cpu"], help="of the server; default: cpu")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for distribution, extras in ((SERVER, given.extra), (TOOLS, ())):
        document = make_sbom(distribution, extras)
        output = given.output / f"{distribution}-{version_of(distribution)}.cdx.json"
        output.write_text(json.dumps(document, indent=2) + "\n")
        print(f"{output}: {len(document['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
