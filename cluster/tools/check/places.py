# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a complaint of a load belongs: file, line and column."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.config.positions import Field, fields_of
from cluster.repository.repository import CONFIG_FILE, CONFIGS_DIRECTORY

_QUOTED: Final = re.compile(r"'([^']+)'")
_WORDS: Final = re.compile(r"[\w.$/-]+")
_LINE: Final = re.compile(
    r"(?P<path>/[^'\n]*?)?: line (?P<line>\d+), column (?P<column>\d+)(, at '.*': )?"
)
_PATH: Final = re.compile(r"'(/[^']+)'")
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

    Args:
        name: The model.
        directory: Its directory.
        config_name: ``--model-config-name``.

    Attributes:
        directory: The same.
        config: Path of its config, there or not.
        text: Its text; empty when it cannot be read.
    """

    def __init__(self, name: str, directory: str, config_name: str) -> None:
        self._name = name
        self.directory = directory
        other = f"{directory}/{CONFIGS_DIRECTORY}/{config_name}.pbtxt"
        is_other = bool(config_name) and Path(other).exists()
        self.config = other if is_other else f"{directory}/{CONFIG_FILE}"
        self.text = _read(self.config)
        self._fields: tuple[Field, ...] | None = None

    def of(self, complaint: str, field: str = "") -> Place:
        """Return where a complaint belongs.

        Args:
            complaint: Its text.
            field: The config's field it is about, if that is known.
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
        found = _field(self._fields, complaint, field, self._name)
        return Place(self.config) if found is None else Place(self.config, found.line, found.column)


def without_place(complaint: str) -> str:
    """Return a complaint without the line and column it begins with."""
    return _LINE.sub(": ", complaint, count=1)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _field(fields: Sequence[Field], complaint: str, name: str, model: str) -> Field | None:
    """Return the field a complaint is about.

    That is the one of this name in the message that has one of the words of the complaint as a
    value, quoted words first; else that value, else the first field of the name.
    """
    subject = _subject(fields, complaint, model)
    if subject is None:
        return next((each for each in fields if each.name == name), None)
    around = subject.message
    inside = (each for each in fields if each.name == name and _is_in(each, around))
    return next(inside, subject) if around else subject


def _subject(fields: Sequence[Field], complaint: str, model: str) -> Field | None:
    words: Iterable[str] = dict.fromkeys((*_QUOTED.findall(complaint), *_WORDS.findall(complaint)))
    by_value: dict[str, Field] = {}
    for each in fields:
        if each.value and not (each.path == (("name", 0),) and each.value == model):
            by_value.setdefault(each.value, each)
    # A number, or a word such as "input", says little.
    wanted = (word for word in words if not word.lstrip("-").isdigit() and word != model)
    return next((by_value[word] for word in wanted if word in by_value), None)


def _is_in(field: Field, message: Sequence[tuple[str, int]]) -> bool:
    return field.path[: len(message)] == tuple(message)
