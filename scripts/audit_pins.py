# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the pins of constraints.txt, and what is installed, against known vulnerabilities.

`scripts/advisories.json` says which versions are known to be vulnerable, from where and as of when,
and which of that is accepted. With --pypi, PyPI is asked about each pin, too; where it does not
answer, the file alone counts, and the output says so. Ends with 1 when a pin is not exact or a
version is affected.

    python scripts/audit_pins.py [--constraints FILE] [--installed] [--pypi]
"""

import argparse
import importlib.metadata
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
ADVISORIES = ROOT / "scripts/advisories.json"
# Older data says little about new versions.
STALE_DAYS = 180
_PYPI = "https://pypi.org/pypi/{}/{}/json"
_ASKED_AT_ONCE = 4
_ANSWER_TIMEOUT_S = 10.0
_WHOLE_TIMEOUT_S = 120.0
_MOST_BYTES = 32 << 20
_MOST_SHOWN = 120
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;#*]+)")


@dataclass(frozen=True)
class Advisory:
    """A vulnerability of a package.

    Attributes:
        affected: Versions, as requirements give them; any of them is enough.
        accepted: Why it is no finding here; empty otherwise.
        aliases: Other ids of the same.
    """

    package: str
    id: str
    affected: tuple[str, ...]
    summary: str
    source: str
    accepted: str = ""
    aliases: tuple[str, ...] = ()

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


def read_answer(text: str | bytes, package: str, version: str) -> list[Advisory]:
    """Return the advisories in PyPI's JSON about a version; withdrawn ones are left out.

    Raises:
        ValueError: It is something else.
    """
    try:
        rows = json.loads(text)["vulnerabilities"]
        return [_advisory(row, package, version) for row in rows if not row.get("withdrawn")]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no answer about a version: {error!r}") from None


def _advisory(row: Mapping[str, Any], package: str, version: str) -> Advisory:
    told = " ".join(str(row.get("summary") or row.get("details") or "no summary").split())
    fixed = ", ".join(row.get("fixed_in") or ())
    return Advisory(
        package,
        row["id"],
        (f"=={version}",),
        told[:_MOST_SHOWN] + (f"; fixed in {fixed}" if fixed else ""),
        str(row.get("link") or ""),
        aliases=tuple(row.get("aliases") or ()),
    )


def merged(kept: Iterable[Advisory], told: Iterable[Advisory]) -> list[Advisory]:
    """Return the advisories kept here, and those told that are not among them by any id."""
    found = list(kept)
    # One that is kept here, perhaps as accepted, holds whatever it is called elsewhere.
    names = {(canonicalize_name(x.package), name) for x in found for name in (x.id, *x.aliases)}
    for each in told:
        package = canonicalize_name(each.package)
        own = {(package, name) for name in (each.id, *each.aliases)}
        if names.isdisjoint(own):
            found.append(each)
            names |= own
    return found


Ask = Callable[[str, str], bytes]


def ask_pypi(package: str, version: str) -> bytes:
    """Return PyPI's JSON about a version.

    Raises:
        OSError: It does not answer, or not with that.
    """
    url = _PYPI.format(package, version)
    with urllib.request.urlopen(url, timeout=_ANSWER_TIMEOUT_S) as answer:
        return bytes(answer.read(_MOST_BYTES))


def told_by_pypi(
    pins: Mapping[str, str], ask: Ask, clock_s: Callable[[], float] = time.monotonic
) -> tuple[list[Advisory], list[str]]:
    """Ask for each pin; return what is told, and of which pins nothing was.

    Args:
        pins: Version of each package.
        ask: See `ask_pypi`.
        clock_s: Seconds of a monotonic clock.

    Raises:
        OSError: The first pin's question has no answer: nobody is there to ask.
    """
    ends_s = clock_s() + _WHOLE_TIMEOUT_S

    def look(pin: tuple[str, str]) -> list[Advisory] | str:
        if clock_s() > ends_s:
            return f"{pin[0]} {pin[1]}: not asked, {_WHOLE_TIMEOUT_S:g} s are over"
        try:
            return read_answer(ask(*pin), *pin)
        except (OSError, ValueError) as error:
            return f"{pin[0]} {pin[1]}: {error}"

    rows = list(pins.items())
    if rows:
        try:
            read_answer(ask(*rows[0]), *rows[0])
        except ValueError as error:
            raise OSError(str(error)) from None
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        answers = list(pool.map(look, rows))
    told = [each for answer in answers if not isinstance(answer, str) for each in answer]
    return told, [answer for answer in answers if isinstance(answer, str)]


def installed() -> dict[str, str]:
    """Return the versions of this environment's distributions."""
    found = importlib.metadata.distributions()
    return {canonicalize_name(each.metadata["Name"]): each.version for each in found}


def _with_pypi(pins: Mapping[str, str], advisories: list[Advisory]) -> tuple[list[Advisory], str]:
    """Return the advisories with PyPI's, and what is to be said of that."""
    try:
        told, untold = told_by_pypi(pins, ask_pypi)
    except OSError as error:
        return advisories, f"PyPI tells nothing ({error}): the advisories kept here alone count"
    lines = [f"PyPI was asked about {len(pins)} pins and knows {len(told)} advisories of them"]
    return merged(advisories, told), "\n".join([*lines, *(f"not told: {each}" for each in untold)])


def main() -> int:
    """Audit; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--installed", action="store_true", help="audit what is installed, too")
    parser.add_argument("--pypi", action="store_true", help="ask PyPI about the pins, too")
    given = parser.parse_args()
    as_of, advisories = read_advisories(ADVISORIES.read_text())
    pins, wrong = read_pins(given.constraints.read_text())
    versions = {**installed(), **pins} if given.installed else pins
    for line in wrong:
        print(f"not pinned exactly once: {line}")
    if given.pypi:
        advisories, said = _with_pypi(pins, advisories)
        print(said)
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
