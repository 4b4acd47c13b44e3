# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the pins of constraints.txt, and what is installed, against advisories kept here.

Nothing is asked over the network: `scripts/advisories.json` says which versions are known to be
vulnerable, from where and as of when. Ends with 1 when a pin is not exact or a version is affected.

    python scripts/audit_pins.py [--constraints FILE] [--installed]
"""

import argparse
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
ADVISORIES = ROOT / "scripts/advisories.json"
# Older data says little about new versions.
STALE_DAYS = 180
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;#*]+)")


@dataclass(frozen=True)
class Advisory:
    """A vulnerability of a package.

    Attributes:
        affected: Versions, as requirements give them; any of them is enough.
        accepted: Why it is no finding here; empty otherwise.
    """

    package: str
    id: str
    affected: tuple[str, ...]
    summary: str
    source: str
    accepted: str = ""

    def affects(self, version: str) -> bool:
        """Whether a version has it; one that is no version is taken to."""
        try:
            parsed = Version(version)
        except InvalidVersion:
            return True
        return any(SpecifierSet(each).contains(parsed, prereleases=True) for each in self.affected)


def read_advisories(text: str) -> tuple[date, list[Advisory]]:
    """Return as of when the advisories are, and them."""
    document = json.loads(text)
    rows = [
        Advisory(**{**row, "affected": tuple(row["affected"])}) for row in document["advisories"]
    ]
    return date.fromisoformat(document["as_of"]), rows


def read_pins(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the version of each package, and the lines that do not pin exactly one."""
    pins: dict[str, str] = {}
    wrong = []
    for line in text.splitlines():
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        found = _PIN.fullmatch(bare)
        name = canonicalize_name(found["name"]) if found else ""
        if found is None or name in pins:
            wrong.append(bare)
        else:
            pins[name] = found["version"]
    return pins, wrong


def affected(
    versions: Mapping[str, str], advisories: Iterable[Advisory]
) -> Iterator[tuple[Advisory, str]]:
    """Yield the advisories that versions are affected by, with those."""
    for each in advisories:
        version = versions.get(canonicalize_name(each.package))
        if version is not None and each.affects(version):
            yield each, version


def installed() -> dict[str, str]:
    """Return the versions of this environment's distributions."""
    found = importlib.metadata.distributions()
    return {canonicalize_name(each.metadata["Name"]): each.version for each in found}


def main() -> int:
    """Audit; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--installed", action="store_true", help="audit what is installed, too")
    given = parser.parse_args()
    as_of, advisories = read_advisories(ADVISORIES.read_text())
    pins, wrong = read_pins(given.constraints.read_text())
    versions = {**installed(), **pins} if given.installed else pins
    for line in wrong:
        print(f"not pinned exactly once: {line}")
    count = 0
    for each, version in affected(versions, advisories):
        count += not each.accepted
        verdict = f"accepted: {each.accepted}" if each.accepted else "AFFECTED"
        print(f"{each.package} {version}: {each.id}, {each.summary} ({each.source}); {verdict}")
    age = (date.today() - as_of).days  # noqa: DTZ011 - a day more or less is no matter
    print(
        f"{len(versions)} versions against {len(advisories)} advisories as of {as_of}"
        + (f", {age} days old: bring scripts/advisories.json up to date" * (age > STALE_DAYS))
        + f": {count} affected, {len(wrong)} not exact"
    )
    return 1 if count or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
