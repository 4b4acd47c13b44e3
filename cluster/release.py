# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which release of Manta a process runs.

Two folders of code may run on one cluster at a time. A release is told apart by its version and by
a digest of its sources, so that two builds of one version are two releases.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from backends.compiled_form import PACKAGES, ROOT
from cluster import __version__

_DIGEST_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Manta.

    Attributes:
        version: Its version.
        digest: Of its sources.
        root: The folder that its packages are in, on this machine.
    """

    version: str
    digest: str
    root: str

    def __str__(self) -> str:
        return f"{self.version}+{self.digest}"


@cache
def own_release() -> Release:
    """Return the release that this process runs; reads all sources, which takes 40 ms, once."""
    return Release(__version__, digest_of(ROOT), str(ROOT))


def digest_of(root: Path) -> str:
    """Return the digest of the sources in a folder."""
    digest = hashlib.sha256()
    for package in sorted(PACKAGES):
        for path in sorted((root / package).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]
