# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many examples hypothesis makes of each property.

`make check` asks for a part of them (`MANTA_EXAMPLES_PERCENT`), other ones in each run. `make test`
makes all, as CI does, and so does pytest where the variable is not set.
"""

import os
from typing import Final

_PERCENT: Final = int(os.environ.get("MANTA_EXAMPLES_PERCENT", "100"))
_LEAST: Final = 10


def examples(count: int) -> int:
    """What of `count` examples this run makes.

    Args:
        count: The examples of a run that makes all.

    Returns:
        That part of them, but at least ten if there are as many.
    """
    return max(min(count, _LEAST), count * _PERCENT // 100)
