# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a line that a process of an embedded Ray has printed is shown. Pure, but for a clock."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.options.parsing import ServerOptions
from deployments.settings.json_lines import printed
from deployments.settings.log_lines import JSON

_ERRORS: Final = 2
# Below errors, as Ray logs in C++ and in Python; and what its handler of signals says twice.
_OF_RAY: Final = re.compile(
    rb"\[[\d-]{10} [\d:,]{12} [DIW] \d+ \d+\] (\(\w+\) )?\w+\.(cc|h):\d+: "
    rb"|\[[\d-]{10} [\d:,]{12} E \d+ \d+\] (\(\w+\) )?logging\.cc:\d+: (\*\*\* SIG|PC: @|    @ )"
    rb"|[\d-]{10} [\d:,]{12}\t(DEBUG|INFO|WARNING) \w+\.py:\d+ -- "
)
# INFO, in the log's default format.
_INFO: Final = re.compile(rb'I\d{4} [\d:.]{15} \d+ [\w.]+:\d+\] "(.*)"\r?')
# As far in as `cluster.serving.texts.phase_line` begins.
_INDENT: Final = b" " * 9


@dataclass
class Manner:
    """How lines are shown.

    Attributes:
        with_names: Whether lines begin with the name of their process.
        is_json: Whether each is a JSON object.
        hides_ray: Whether what Ray itself logs is left out, but for errors.
        is_starting: Whether lines of the log are shown without their heading, if they are INFO: a
            person waits for the server.
    """

    with_names: bool = False
    is_json: bool = False
    hides_ray: bool = False
    is_starting: bool = False
    clock_ns: Callable[[], int] = time.time_ns

    def shown(self, line: bytes, stream: int, name: bytes) -> bytes | None:
        """Return a line as it is shown; None for one that is not.

        Args:
            line: The line, without its end.
            stream: The standard stream it was printed to.
            name: Of the process; empty for nobody's.
        """
        if self.hides_ray and _OF_RAY.match(line):
            return None
        if self.is_json:
            process = name.decode(errors="backslashreplace")
            logger = "stderr" if stream == _ERRORS else "stdout"
            return printed(line, logger, process, self.clock_ns())
        if self.is_starting and (found := _INFO.fullmatch(line)):
            return _INDENT + found[1]
        return name + b": " + line if self.with_names and name else line


def manner_of(options: ServerOptions, *, is_terminal: bool) -> Manner:
    """Return how lines are shown where a person reads, and where nobody may."""
    return Manner(
        with_names=is_terminal,
        is_json=options.log_format == JSON,
        hides_ray=not options.verbose,
        is_starting=is_terminal and not options.verbose,
    )
