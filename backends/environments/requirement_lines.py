# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The lines of a requirements file, as every node can use them."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError

MAX_REQUIREMENTS_BYTES: Final = 1 << 20
_COMMENT: Final = re.compile(r"(^|\s)#.*")
_FILE: Final = re.compile(
    r"(?P<option>(?:-[rcfe]|--(?:requirement|constraint|find-links|editable))[ =]\s*|(?=\.))"
    r"(?P<path>\S+)"
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a model wants installed.

    Attributes:
        path: The file.
        lines: Its lines, with relative paths made absolute.
    """

    path: str
    lines: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of the lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:32]


def read_requirements(model_name: str, path: Path) -> Requirements | None:
    """Return what a requirements file asks for; None when that is nothing.

    What the lines lead to is kept by their text alone, so a last line names the files they refer
    to as they are now.

    Raises:
        InvalidArgumentError: It cannot be read, or is too long.
    """
    try:
        content = path.read_bytes()
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"{path.name} of model '{model_name}' cannot be read: {error}"
        ) from None
    if len(content) > MAX_REQUIREMENTS_BYTES:
        raise InvalidArgumentError(
            f"{path.name} of model '{model_name}' is larger than the {MAX_REQUIREMENTS_BYTES} "
            "bytes allowed"
        )
    lines, referred = [], []
    for line in text.replace("\\\n", " ").splitlines():
        bare = _COMMENT.sub("", line).strip()
        file = _FILE.fullmatch(bare)
        beside = path.parent / file["path"] if file else None
        if file and beside is not None and beside.exists():
            bare = f"{file['option']}{beside.resolve()}"
            referred += _stamps(beside)
        if bare:
            lines.append(bare)
    if referred:
        lines.append(f"# {' '.join(referred)}")
    return Requirements(str(path), tuple(lines)) if lines else None


def _stamps(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [f"{each.name}:{each.stat().st_mtime_ns}" for each in files]
