# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A defect of a model: where it is, what it is, and what to do."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """What a defect means for a load.

    ERROR: The load fails. WARNING: It does not, but something is ignored or unwise. NOTE: What was
    not checked.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect.

    Attributes:
        file: Path of the file or directory.
        line: Line in it, from 1.
        column: Column in it, from 1.
        severity: What it means for a load.
        text: What is wrong, as a load says it, on one line.
        fix: What to do; empty when the text says it.
    """

    file: str
    line: int
    column: int
    severity: Severity
    text: str
    fix: str = ""

    def __str__(self) -> str:
        said = f"{self.text.rstrip().removesuffix('.')}; {self.fix}" if self.fix else self.text
        place = f"{self.file}:{self.line}:{self.column}"
        # Names of files may have any characters.
        line = f"{place}: {self.severity}: {said}"
        return " ".join(line.encode(errors="backslashreplace").decode().split())

    def as_json(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return asdict(self)
