# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A generated model, and what is done to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """An empty directory."""


Entry = bytes | Link | Folder


@dataclass(frozen=True)
class Model:
    """A model's directory.

    Attributes:
        kind: What it began as.
        config: Text of its config.pbtxt; None for none.
        files: What else is there, by path.
        suffix: The end of its name.
        faults: What was done to it.
    """

    kind: str
    config: str | None
    files: Mapping[str, Entry] = field(default_factory=dict)
    suffix: str = ""
    faults: tuple[str, ...] = ()


Fault = Callable[[Model], Model]


def added(text: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "") + text + "\n")


def changed(old: str, new: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "").replace(old, new))


def with_file(path: str, entry: Entry) -> Fault:
    return lambda model: replace(model, files={**model.files, path: entry})


def moved(old: str, new: str) -> Fault:
    """Move what lies below ``old`` to ``new``."""
    return lambda model: replace(
        model,
        files={
            new + path.removeprefix(old) if path.startswith(old) else path: entry
            for path, entry in model.files.items()
        },
    )


def content(change: Callable[[bytes], Entry]) -> Fault:
    """Change the model's own file."""
    return lambda model: replace(
        model,
        files={
            path: change(entry) if isinstance(entry, bytes) and "/model." in path else entry
            for path, entry in model.files.items()
        },
    )


def named(suffix: str) -> Fault:
    return lambda model: replace(model, suffix=suffix)


def parameter(key: str, text: str) -> Fault:
    return added(f'parameters {{ key: "{key}" value: {{ string_value: "{text}" }} }}')
