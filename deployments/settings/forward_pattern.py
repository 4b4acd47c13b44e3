# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The regular expressions of headers and metadata that become request parameters.

Triton: server/src/command_line_parser.cc case_insensitive_prefix @e1db8a6
"""

import re
from typing import Final

from backends.api.errors import InvalidArgumentError

# Triton puts RE2's (?i) in front of the option, which this takes back. Python's patterns know no
# such flag without a group.
_CASE_SENSITIVE: Final = "(?-i)"


def compile_forward_pattern(pattern: str, option: str) -> re.Pattern[bytes] | None:
    """Compile the value of ``option``; empty forwards nothing.

    Names are compared without regard to case unless the pattern begins with ``(?-i)``.

    Raises:
        InvalidArgumentError: It is not a regular expression.
    """
    if not pattern:
        return None
    flags = re.NOFLAG if pattern.startswith(_CASE_SENSITIVE) else re.IGNORECASE
    try:
        return re.compile(pattern.removeprefix(_CASE_SENSITIVE).encode(), flags)
    except (re.error, OverflowError) as error:
        raise InvalidArgumentError(
            f"{option} '{pattern}' is not a regular expression: {error}; give one in the syntax of "
            f"Python's re"
        ) from None
