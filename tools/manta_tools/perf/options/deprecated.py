# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""perf_analyzer's old options, and the ones that stand for them today.

perf_analyzer takes them in silence; here a line on stderr names what to give instead.

Triton: perf_analyzer/src/command_line_parser.cc ParseCommandLine, VerifyOptions @00dd034
"""

from collections.abc import Mapping
from typing import Any, Final

from manta_tools.perf.options import values
from manta_tools.perf.options.option import Option
from manta_tools.perf.options.values import Range, RefusedValueError

_GROUP: Final = "Deprecated"
# By names that are no fields of the options.
DEPRECATED: Final[dict[str, Option]] = {
    "old_concurrency": Option("", "t", _GROUP, "Concurrency.", values.whole),
    "old_highest": Option("", "c", _GROUP, "Highest concurrency, with -d.", values.whole),
    "old_dynamic": Option("", "d", _GROUP, "Goes on from -t to -c.", None),
    "old_zero": Option("", "z", _GROUP, "Inputs are zero.", None),
    "old_directory": Option("data-directory", "", _GROUP, "Data of inputs.", values.input_data),
}
_INSTEAD: Final = {
    "old_concurrency": "--concurrency-range",
    "old_highest": "--concurrency-range",
    "old_dynamic": "--concurrency-range",
    "old_zero": "--input-data zero",
    "old_directory": "--input-data",
}
_LOADS: Final = ("old_concurrency", "old_highest", "old_dynamic")
# What perf_analyzer says when they meet today's.
_CONFLICTS: Final = {
    "concurrency_range": "Cannot use deprecated options with --concurrency-range.",
    "request_rate_range": "Cannot use concurrency options with --request-rate-range.",
    "request_intervals": "Cannot use deprecated options with --request-intervals.",
}


def modernised(given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return today's options, and a warning for each old one.

    Args:
        given: Fields and old names, with their values.

    Raises:
        RefusedValueError: Old ones do not go with today's.
    """
    old = [name for name in DEPRECATED if name in given]
    found = {name: value for name, value in given.items() if name not in DEPRECATED}
    if any(name in _LOADS for name in old):
        for field, message in _CONFLICTS.items():
            if field in given:
                raise RefusedValueError(message)
        start = given.get("old_concurrency", 1)
        end = given.get("old_highest", 0) if "old_dynamic" in given else 1
        if start <= 0:
            raise RefusedValueError("The start of the search range must be > 0")
        found["concurrency_range"] = Range(start, end, 1)
    inputs = found.get("input_data", ())
    if "old_zero" in given and (inputs or "old_directory" in given):
        raise RefusedValueError("The -z flag cannot be set when --data-directory is provided.")
    for name, text in (("old_zero", "zero"), ("old_directory", given.get("old_directory"))):
        if name in given:
            found["input_data"] = (*found.get("input_data", ()), text)
    return found, tuple(
        f"WARNING: {_flag(name)} is deprecated; give {_INSTEAD[name]}" for name in old
    )


def _flag(name: str) -> str:
    option = DEPRECATED[name]
    return f"-{option.short}" if option.short else f"--{option.name}"
