# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From the text of one option to its value.

Triton: perf_analyzer/src/command_line_parser.cc ParseCommandLine @263c5f6
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


class RefusedValueError(Exception):
    """The text of an option is not one of its values; the message is perf_analyzer's."""


class NotANumberError(Exception):
    """A number was expected; the caller knows the option's name."""


@dataclass(frozen=True, slots=True)
class Range:
    """Levels to measure: start, end and step, all included.

    Attributes:
        start: First level.
        end: Last level; 0 for no bound but the latency threshold.
        step: Distance of two levels, or the resolution of a binary search.
    """

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class RequestParameter:
    """A custom parameter of every request; ``value`` is a bool, an int or a string."""

    name: str
    value: bool | int | str


def whole(text: str) -> int:
    """Read a whole number.

    Raises:
        NotANumberError: It is none.
    """
    try:
        return int(text.strip())
    except ValueError:
        raise NotANumberError from None


def real(text: str) -> float:
    """Read a finite number.

    Raises:
        NotANumberError: It is none.
    """
    try:
        number = float(text)
    except ValueError:
        raise NotANumberError from None
    if not math.isfinite(number):
        raise NotANumberError
    return number


def least(option: str, minimum: int, condition: str) -> Callable[[str], int]:
    """Return a parser of whole numbers from a minimum on; the refusal ends in ``condition``."""

    def parse(text: str) -> int:
        number = whole(text)
        if number < minimum:
            raise RefusedValueError(f"Failed to parse {option}. The value must be {condition}")
        return number

    return parse


def percentage(option: str) -> Callable[[str], float]:
    """Return a parser of numbers from 0.0 on."""

    def parse(text: str) -> float:
        number = real(text)
        if number < 0.0:
            raise RefusedValueError(f"Failed to parse {option}. The value must be >= 0.0.")
        return number

    return parse


def word(option: str, *allowed: str, listed: str = "") -> Callable[[str], str]:
    """Return a parser of one of some words; ``listed`` is how the refusal lists them."""
    quoted = [f"'{each}'" for each in allowed]
    separator = "," if len(quoted) > 2 else ""  # noqa: PLR2004 - two are joined without a comma
    named = listed or ", ".join(quoted[:-1]) + f"{separator} or {quoted[-1]}"

    def parse(text: str) -> str:
        if text not in allowed:
            raise RefusedValueError(
                f"Failed to parse {option}. Unsupported type provided: '{text}'. The available "
                f"options are {named}."
            )
        return text

    return parse


def switch(option: str, highest: int) -> Callable[[str], int]:
    """Return a parser of 0 or 1, or of 0 to 2."""
    listed = {1: "0 or 1", 2: "0, 1, or 2"}[highest]

    def parse(text: str) -> int:
        number = whole(text)
        if not 0 <= number <= highest:
            raise RefusedValueError(f"Failed to parse {option}. The value must be either {listed}.")
        return number

    return parse


def distribution(text: str) -> str:
    """Read ``--request-distribution``."""
    if text not in ("constant", "poisson"):
        raise RefusedValueError(
            f"Failed to parse --request-distribution. Unsupported type provided: '{text}'. Choices "
            "are 'poisson' or 'constant'."
        )
    return text


def protocol(text: str) -> str:
    """Read ``-i``: http or grpc, in any case."""
    if text.lower() not in ("http", "grpc"):
        raise RefusedValueError(
            "Failed to parse -i (protocol). The value should be either HTTP or gRPC."
        )
    return text.lower()


def existing_file(option: str) -> Callable[[str], str]:
    """Return a parser of paths of files that are there."""

    def parse(text: str) -> str:
        if not os.path.isfile(text):  # noqa: PTH113 - a text stays a text
            raise RefusedValueError(
                f"Failed to parse {option}. The value must be a valid file path"
            )
        return text

    return parse


def new_path(text: str) -> str:
    """Read ``--profile-export-file``: a path where nothing is yet."""
    if os.path.exists(text):  # noqa: PTH110 - a text stays a text
        raise RefusedValueError(
            "Failed to parse --profile-export-file. Path must not already exist."
        )
    return text


def html_path(text: str) -> str:
    """Read ``--html-report``: a path whose folder is there."""
    folder = os.path.dirname(text) or "."  # noqa: PTH120 - a text stays a text
    if not text or os.path.isdir(text) or not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise RefusedValueError(
            f"Failed to parse --html-report. Got '{text}'. The value must be a file in a folder "
            "that exists."
        )
    return text


def input_data(text: str) -> str:
    """Read ``--input-data``: zero, random, a directory or a JSON file."""
    if text not in ("zero", "random") and not os.path.exists(text):  # noqa: PTH110 - as above
        raise RefusedValueError(
            f"Failed to parse --input-data. Unsupported type provided: '{text}'. The available "
            "options are 'zero', 'random', path to a directory, or a json file."
        )
    return text


_RANGE_PARTS: Final = 3


def _split_range(option: str, text: str) -> list[str]:
    parts = text.split(":")
    if len(parts) > _RANGE_PARTS:
        raise RefusedValueError(
            f"Failed to parse {option}. The value does not match <start:end:step>."
        )
    return parts


def concurrency_range(text: str) -> Range:
    """Read ``--concurrency-range``; end and step are 1 where they are left out."""
    numbers = list(map(whole, _split_range("--concurrency-range", text)))
    if numbers[0] <= 0:
        raise RefusedValueError("The start of the search range must be > 0")
    return Range(*numbers, *([1] * (_RANGE_PARTS - len(numbers))))


def request_rate_range(text: str) -> Range:
    """Read ``--request-rate-range``, in requests a second."""
    numbers = list(map(real, _split_range("--request-rate-range", text)))
    if numbers[0] <= 0:
        raise RefusedValueError(
            "Failed to parse --request-rate-range. The start of the search range must be > 0."
        )
    return Range(*numbers, *([1.0] * (_RANGE_PARTS - len(numbers))))


def periodic_concurrency_range(text: str) -> Range:
    """Read ``--periodic-concurrency-range``: a start, an end and the step from one to the other."""
    option = "Failed to parse --periodic-concurrency-range."
    parts = text.split(":")
    if len(parts) == 1:
        raise RefusedValueError(f"{option} Both <start> and <end> values must be provided.")
    numbers = list(map(whole, _split_range("--periodic-concurrency-range", text)))
    start, end, step = (*numbers, 1)[:_RANGE_PARTS]
    if step <= 0:
        raise RefusedValueError(f"{option} The <step> value must be > 0.")
    if start > end:
        raise RefusedValueError(f"{option} The <start> must be <= <end>.")
    if (end - start) % step:
        raise RefusedValueError(
            f"{option} The <step> value must be a factor of the range size (<end> - <start>)."
        )
    return Range(start, end, step)


def sequence_ids(text: str) -> tuple[int, int]:
    """Read ``--sequence-id-range``: the first id and the one after the last; 0 for no end."""
    option = "Failed to parse --sequence-id-range."
    parts = text.split(":")
    if len(parts) > 2:  # noqa: PLR2004 - start and end
        raise RefusedValueError(f"{option} The value does not match <start:end>.")
    start, end = whole(parts[0]), whole(parts[1]) if len(parts) > 1 else 0
    if start < 0 or end < 0:
        raise RefusedValueError(f"{option} The range values must be >= 0.")
    if len(parts) > 1 and start >= end:
        raise RefusedValueError(f"{option} The 'end' value must be greater than 'start' value.")
    return start, end


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``--shape``: ``<name>:<dim>,<dim>``."""
    name, colon, dims = text.rpartition(":")
    if not colon:
        raise RefusedValueError("Failed to parse --shape. There must be a colon after input name.")
    found = tuple(map(whole, dims.split(",")))
    if min(found) <= 0:
        raise RefusedValueError(
            "Failed to parse --shape. The dimensions of input tensor must be > 0."
        )
    return name, found


def header(text: str) -> tuple[str, str]:
    """Read ``-H``: ``<name>:<value>``."""
    name, colon, value = text.partition(":")
    if not (colon and name):
        raise RefusedValueError(
            f"Failed to parse -H. The value does not match <name:value>. Got '{text}'"
        )
    return name.strip(), value.strip()


def request_parameter(text: str) -> RequestParameter:
    """Read ``--request-parameter``: ``<name>:<value>:<type>``."""
    parts = text.split(":")
    if len(parts) != 3:  # noqa: PLR2004 - name, value and type
        raise RefusedValueError(
            "Failed to parse --request-parameter. The value does not match <name:value:type>."
        )
    name, value, kind = parts
    readers: dict[str, Callable[[str], bool | int | str]] = {
        "bool": lambda given: given.lower() in ("true", "1"),
        "int": whole,
        "string": str,
    }
    reader = readers.get(kind.lower())
    if reader is None:
        raise RefusedValueError(
            f"Failed to parse --request-parameter. Unsupported type: '{kind}'. Expected bool, int "
            "or string."
        )
    return RequestParameter(name, reader(value))


def goodput_objectives(text: str) -> tuple[tuple[str, float], ...]:
    """Read ``--goodput``: ``<metric>:<limit>`` pairs, in milliseconds, with spaces or commas."""
    allowed = ("request_latency", "time_to_first_response", "inter_response_latency")
    found = []
    for pair in text.replace(",", " ").split():
        name, colon, limit = pair.partition(":")
        if not colon or name not in allowed:
            raise RefusedValueError(
                f"Failed to parse --goodput. Got '{pair}'. The value must be <metric>:<msec> with "
                f"a metric of {', '.join(allowed)}."
            )
        found.append((name, real(limit)))
    return tuple(found)


def composing_models(text: str) -> tuple[tuple[str, str], ...]:
    """Read ``--bls-composing-models``: ``<name>[:<version>]``, with commas between."""
    rows = (each.partition(":") for each in "".join(text.split()).split(","))
    return tuple((name, version) for name, _, version in rows if name)
