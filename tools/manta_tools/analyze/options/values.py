# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From what YAML or the command line gives for one option to its value.

A command line gives texts, YAML gives numbers, lists and mappings too; each reader takes both.

Triton: model_analyzer/model_analyzer/config/input/config_list_numeric.py @63a0fec
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.tags import ALIASES, TAGS

# Of the option's name and what was given for it.
Read = Callable[[str, Any], Any]

# A count without a limit.
ALL = sys.maxsize

_SWEEP_KEYS = ("start", "stop", "step")
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_SIDES = ("min", "max")


def refused(name: str, given: object, expected: str) -> InvalidArgumentError:
    """Return the error of a value that an option does not take."""
    return InvalidArgumentError(f"option '{name}' got {given!r}, expected {expected}")


def unknown(what: str, key: str, known: Iterable[str], remedy: str = "") -> InvalidArgumentError:
    """Return the error of a key that there is not; it names the nearest that there is."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(names)}"
    return InvalidArgumentError(f"{what} '{key}' is unknown; {hint}{remedy}")


def text(name: str, given: Any) -> str:
    """Read a text."""
    if isinstance(given, Mapping | list) or given is None:
        raise refused(name, given, "a text")
    return str(given)


def flag(name: str, given: Any) -> bool:
    """Read true or false."""
    found = _FLAGS.get(str(given).lower())
    if found is None:
        raise refused(name, given, "true or false")
    return found


def whole(least: int = 0) -> Read:
    """Return a reader of whole numbers from a least on."""

    def read(name: str, given: Any) -> int:
        return _whole(name, given, least)

    return read


def count_or_auto(name: str, given: Any) -> int:
    """Read a whole number, or ``auto`` for one without a limit."""
    if str(given).strip() == "auto":
        return ALL
    if not str(given).strip().isdecimal():
        raise refused(name, given, "a whole number from 0 on, or auto")
    return int(str(given))


def real(least: float = 0.0) -> Read:
    """Return a reader of numbers from a least on."""

    def read(name: str, given: Any) -> float:
        try:
            value = float(given)
        except (TypeError, ValueError):
            raise refused(name, given, "a number") from None
        if isinstance(given, bool) or not least <= value < float("inf"):
            raise refused(name, given, f"a number from {least:g} on")
        return value

    return read


def word(*allowed: str) -> Read:
    """Return a reader of one of some words."""

    def read(name: str, given: Any) -> str:
        if str(given) not in allowed:
            raise refused(name, given, f"one of {', '.join(allowed)}")
        return str(given)

    return read


def words(name: str, given: Any) -> tuple[str, ...]:
    """Read texts: a list, or one text with commas between."""
    if isinstance(given, Mapping) or given is None:
        raise refused(name, given, "a list, or names with commas between")
    rows = given if isinstance(given, list) else str(given).split(",")
    return tuple(stripped for row in rows if (stripped := str(row).strip()))


def whole_numbers(least: int = 1) -> Read:
    """Return a reader of whole numbers: one, a list, with commas between, or start, stop, step.

    The stop is included. On the command line ``start:stop:step`` does as well.
    """

    def read(name: str, given: Any) -> tuple[int, ...]:
        rows = _rows(name, given)
        return tuple(dict.fromkeys(_whole(name, row, least) for row in rows))

    return read


def real_numbers(least: float) -> Read:
    """Return a reader of numbers: one, a list, or with commas between."""
    one = real(least)

    def read(name: str, given: Any) -> tuple[float, ...]:
        rows = given if isinstance(given, list) else str(given).split(",")
        return tuple(dict.fromkeys(one(name, row) for row in rows))

    return read


def mapping(name: str, given: Any) -> dict[str, Any]:
    """Read keys and values, which only YAML can give."""
    if not isinstance(given, Mapping):
        raise refused(name, given, "keys with their values, in the YAML file")
    return {str(key): value for key, value in given.items()}


def flags_of_program(name: str, given: Any) -> dict[str, Any]:
    """Read flags of another program; names may be written with ``_`` or ``-``."""
    return {key.replace("_", "-"): value for key, value in mapping(name, given).items()}


def objectives(name: str, given: Any) -> tuple[tuple[str, float], ...]:
    """Read a list of tags, or tags with weights; on the command line ``tag:weight`` with commas."""
    rows: dict[str, Any]
    if isinstance(given, Mapping):
        rows = {str(tag): weight for tag, weight in given.items()}
    else:
        parts = (each.partition(":") for each in words(name, given))
        rows = {tag: weight or 1 for tag, _, weight in parts}
    weight_of = real(0.0)
    found = tuple((_tag(name, tag), weight_of(name, weight)) for tag, weight in rows.items())
    if not any(weight for _, weight in found):
        raise refused(name, given, "at least one metric with a weight above 0")
    return found


def constraints(name: str, given: Any) -> tuple[Bound, ...]:
    """Read ``{tag: {max: limit}}``; on the command line ``tag<=limit`` and ``tag>=limit``."""
    if isinstance(given, str):
        return tuple(_bound_of_text(name, each) for each in words(name, given))
    limit_of = real(0.0)
    found = []
    for tag, sides in mapping(name, given).items():
        for side, limit in mapping(f"{name}.{tag}", sides).items():
            if side not in _SIDES:
                raise unknown(f"'{name}' of '{tag}'", side, _SIDES)
            found.append(_bound(_tag(name, tag), side, limit_of(f"{name}.{tag}", limit)))
    return tuple(found)


def _bound(tag: str, side: str, limit: float) -> Bound:
    return Bound(tag, "min" if side == "min" else "max", limit)


def _bound_of_text(name: str, given: str) -> Bound:
    for sign, side in (("<=", "max"), (">=", "min")):
        tag, found, limit = given.partition(sign)
        if found:
            return _bound(_tag(name, tag.strip()), side, real(0.0)(name, limit))
    raise refused(name, given, "a metric with its limit, for example perf_latency_p99<=20")


def _tag(name: str, tag: str) -> str:
    found = ALIASES.get(tag, tag)
    if found not in TAGS:
        raise unknown(f"the metric of '{name}'", tag, TAGS)
    return found


def _whole(name: str, given: Any, least: int) -> int:
    try:
        value = int(str(given).strip())
    except ValueError:
        raise refused(name, given, "a whole number") from None
    if value < least:
        raise refused(name, given, f"a whole number from {least} on")
    return value


def _rows(name: str, given: Any) -> Iterable[Any]:
    if isinstance(given, str) and ":" in given:
        given = dict(zip(_SWEEP_KEYS, given.split(":"), strict=False))
    if isinstance(given, Mapping):
        return _range(name, given)
    return given if isinstance(given, list) else str(given).split(",")


def _range(name: str, given: Mapping[str, Any]) -> Iterable[int]:
    for key in given:
        if key not in _SWEEP_KEYS:
            raise unknown(f"the key of a range of '{name}'", str(key), _SWEEP_KEYS)
    if not {"start", "stop"} <= given.keys():
        raise refused(name, dict(given), "both start and stop of a range")
    start, stop = (_whole(name, given[key], 0) for key in ("start", "stop"))
    if stop < start:
        raise refused(name, dict(given), "a stop that is not below the start")
    return range(start, stop + 1, _whole(name, given.get("step", 1), 1))
