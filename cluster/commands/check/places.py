# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a complaint of a load belongs: file, line and column."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backends.api.errors import TritonError
from backends.config.pbtxt import MAX_CONFIG_BYTES
from backends.config.positions import Field, fields_of
from cluster.repository.configs import CONFIG_FILE, CONFIGS_DIRECTORY
from cluster.repository.filesystem import FileSystem
from cluster.repository.stores.local import LocalFileSystem
from deployments.model_files.contracts import FileChangedError

_QUOTED: Final = re.compile(r"'([^']+)'")
_WORDS: Final = re.compile(r"[\w.$/-]+")
_LINE: Final = re.compile(
    r"(?P<path>(?:[a-z0-9]+:/)?/[^'\n]*?)?"
    r"(?P<place>: line (?P<line>\d+), column (?P<column>\d+)(, at '.*?')?): "
)
_PATH: Final = re.compile(r"'((?:[a-z0-9]+:/)?/[^']+)'")
# Fields whose values are names that complaints use without quotes.
_NAMES: Final = frozenset({"name", "model_name", "key", "value"})
# Complaints about a file, told by the path in them.
_ABOUT_A_FILE: Final = re.compile(
    r"unable to find '|not found in '|cannot be read as|failed to open|defines no such|must have a "
    r"name|does not implement"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is."""

    file: str
    line: int = 1
    column: int = 1


class ModelPlaces:
    """The places of one model.

    Attributes:
        directory: The same.
        config: Path of its config, there or not.
        text: Its text; empty when it cannot be read.
    """

    def __init__(
        self,
        name: str,
        directory: str,
        config_name: str,
        filesystem: FileSystem = LocalFileSystem(),  # noqa: B008 - it has no state
    ) -> None:
        self._name = name
        self.directory = directory
        other = f"{directory}/{CONFIGS_DIRECTORY}/{config_name}.pbtxt"
        is_other = bool(config_name) and filesystem.exists(other)
        self.config = other if is_other else f"{directory}/{CONFIG_FILE}"
        self.text = _read(filesystem, self.config)
        self._fields: tuple[Field, ...] | None = None

    def of(self, complaint: str, names: str = "") -> Place:
        """Return where a complaint belongs.

        Args:
            complaint: Its text.
            names: The config's fields it may be about, the likeliest first.
        """
        told = _LINE.search(complaint)
        if told:
            return Place(told["path"] or self.config, int(told["line"]), int(told["column"]))
        path = _PATH.search(complaint)
        if path and _ABOUT_A_FILE.search(complaint):
            return Place(path[1])
        if not self.text:
            return Place(self.directory)
        if self._fields is None:
            self._fields = fields_of(self.text)
        found = _field(self._fields, complaint, names.split(), self._name)
        return Place(self.config) if found is None else Place(self.config, found.line, found.column)


def without_place(complaint: str) -> str:
    """Return a complaint without the line and column in it."""
    told = _LINE.search(complaint)
    return complaint if told is None else complaint.replace(told["place"], "", 1)


def _read(filesystem: FileSystem, path: str) -> str:
    try:
        return filesystem.read_bytes(path, MAX_CONFIG_BYTES).decode()
    except (TritonError, OSError, ValueError, FileChangedError):
        return ""


def _field(
    fields: Sequence[Field], complaint: str, names: Sequence[str], model: str
) -> Field | None:
    """Return the field a complaint is about.

    That is one of these names in the message that has one of the words of the complaint as a
    value; else the first one of the names; else that value.
    """
    subject = _subject(fields, complaint, model)
    named = [each for name in names for each in fields if each.name == name]
    if subject is None or not subject.message:
        return next(iter(named), subject)
    around = subject.message
    return next((each for each in named if each.path[: len(around)] == around), subject)


def _subject(fields: Sequence[Field], complaint: str, model: str) -> Field | None:
    """Return the field that has a word of a complaint as its value: a quoted one, else a name."""
    quoted = [word for word in _QUOTED.findall(complaint) if word != model]
    bare = [word for word in _WORDS.findall(complaint) if word != model]
    for words, is_said in ((quoted, bool), (bare, _is_name)):
        for word in words:
            found = (each for each in fields if each.value == word and is_said(each))
            first = next(found, None)
            if first is not None and not word.lstrip("-").isdigit():
                return first
    return None


def _is_name(field: Field) -> bool:
    return field.name in _NAMES
