# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an analysis has measured, kept in a file while it goes on.

A file is JSON lines that are only ever appended: the setup first, then what was measured. One that
ends in the middle of a line, because its writer was killed, has lost that line. Files of a folder
are numbered; the highest is the newest. Another setup, whose measurements say nothing of this one,
begins a new file.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Self

from backends.api.errors import InvalidArgumentError, UnavailableError
from manta_tools.analyze.json_forms import from_json, to_json
from manta_tools.analyze.records import Measured

_SUFFIX: Final = ".ckpt"
_FORMAT: Final = 1

Tree = Mapping[str, Any]


class Checkpoint:
    """One file, read and open for more; whoever has it open is its only writer.

    Attributes:
        path: The file.
        setup: What was measured how; measurements of another setup are not compared with these.
        facts: What was noted beside measurements, by name.
        measured: The measurements, in their order.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file
        self.setup: Tree = {}
        self.facts: dict[str, Any] = {}
        self.measured: list[Measured] = []

    @classmethod
    def resume(cls, directory: Path, setup: Tree) -> Self:
        """Open the newest file of a folder, or begin one where there is none of this setup.

        Args:
            directory: Where they are; made where it is missing.
            setup: What is going to be measured how, as JSON has it.

        Raises:
            InvalidArgumentError: The newest file is no checkpoint.
            UnavailableError: Another analysis writes it.
        """
        directory.mkdir(parents=True, exist_ok=True)
        newest = _newest(directory)
        if newest is not None:
            found = cls._open(newest)
            # As JSON has it: a tuple is a list.
            if found.setup == json.loads(json.dumps(setup)):
                return found
            found.close()
        number = int(newest.stem) + 1 if newest else 0
        begun = cls._open(directory / f"{number}{_SUFFIX}")
        begun.setup = setup
        begun._write({"checkpoint": _FORMAT, "setup": setup})  # noqa: SLF001 - of this class
        return begun

    @classmethod
    def newest(cls, directory: Path) -> Self:
        """Open the newest file of a folder.

        Raises:
            InvalidArgumentError: There is none, or it is no checkpoint.
            UnavailableError: An analysis writes it.
        """
        path = _newest(directory)
        if path is None:
            raise InvalidArgumentError(
                f"'{directory}' holds no checkpoint, expected one that 'manta analyze profile' has "
                "written; run that first, or give --checkpoint-directory"
            )
        return cls._open(path)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *ignored: object) -> None:
        """Close the file."""
        self.close()

    def append(self, measured: Measured) -> None:
        """Keep a measurement; it is on its way to the disk when this returns."""
        self._write({"measured": to_json(measured)})
        self.measured.append(measured)

    def note(self, name: str, fact: object) -> None:
        """Keep something else under a name, unless it is what is kept there."""
        if self.facts.get(name) != fact:
            self._write({"fact": name, "value": fact})
            self.facts[name] = fact

    def close(self) -> None:
        """Close the file, so that another may write it."""
        self._file.close()

    @classmethod
    def _open(cls, path: Path) -> Self:
        # The only writer keeps it open; the lock ends with the process, however that ends.
        file = path.open("ab+", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = cls(path, file)
            found._read()
        except BlockingIOError:
            file.close()
            raise UnavailableError(
                f"checkpoint '{path}' is being written by another analysis, expected to be its only"
                " writer; wait for its end, or give another --checkpoint-directory"
            ) from None
        except BaseException:
            file.close()
            raise
        return found

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file.fileno(), whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidArgumentError(
                    f"line {number} of '{self.path}' is none of a checkpoint ({error}), expected "
                    "what an analysis of this release writes; move the file away to begin anew"
                ) from None

    def _take(self, row: Tree) -> None:
        if "measured" in row:
            self.measured.append(from_json(row["measured"]))
        elif "fact" in row:
            self.facts[row["fact"]] = row["value"]
        elif row["checkpoint"] == _FORMAT:
            self.setup = row["setup"]
        else:
            raise ValueError(f"it has format {row['checkpoint']}, not {_FORMAT}")

    def _write(self, row: Tree) -> None:
        # One write to a file that is open for appending: all of the line, or a beginning of it.
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        if self._file.write(line) != len(line):
            raise UnavailableError(f"checkpoint '{self.path}' was not written: the disk is full")
        os.fsync(self._file.fileno())


def _newest(directory: Path) -> Path | None:
    if not directory.is_dir():
        return None
    numbered = [each for each in directory.glob(f"*{_SUFFIX}") if each.stem.isdecimal()]
    return max(numbered, key=lambda each: int(each.stem), default=None)
