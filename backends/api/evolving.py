# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Records that processes of two releases hand each other.

While a cluster is upgraded, a process of one release unpickles what one of another has pickled. A
record that is named to `evolves` travels as its fields by name: what the reader does not know is
dropped, and what the writer did not know has its default. So a field may be added, with a default,
without a new version of the contract that the record belongs to
(`deployments.contracts.protocols`).
"""

import copyreg
from dataclasses import fields
from typing import Any, Final

# By record: the names of its fields.
_KNOWN: Final[dict[type[Any], tuple[str, ...]]] = {}


def evolves(*records: type[Any]) -> None:
    """Have records travel by the names of their fields. Called by the module that defines them.

    Args:
        records: Dataclasses or msgspec structs whose fields are all arguments of the constructor.
    """
    for record in records:
        _KNOWN[record] = _names(record)
        copyreg.pickle(record, _reduced)


def _names(record: type[Any]) -> tuple[str, ...]:
    names: tuple[str, ...] | None = getattr(record, "__struct_fields__", None)
    return tuple(each.name for each in fields(record)) if names is None else names


def _reduced(record: Any) -> tuple[Any, ...]:
    kind = type(record)
    # The same object for all records of a kind: their names are pickled once.
    names = _KNOWN[kind]
    return restored, (kind, names, tuple([getattr(record, name) for name in names]))


def restored(kind: type[Any], names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Make a record of what a process of any release knew of it.

    Raises:
        TypeError: A field without a default is missing.
    """
    known = _KNOWN[kind]
    given = zip(names, values, strict=True)
    if names == known:
        return kind(**dict(given))
    return kind(**{name: value for name, value in given if name in known})
