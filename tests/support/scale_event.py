# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An event in a cluster of any size: how it is prepared, and what its message takes."""

import asyncio
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.large_cluster import Size

# Where it sends a message it returns how many bytes that has.
Event = Callable[[], object]
Loop = asyncio.AbstractEventLoop
Prepare = Callable[[Size, Loop], Event]


@contextmanager
def prepared(prepare: Prepare, size: Size) -> Iterator[Callable[[], int]]:
    """Prepare a cluster for as long as its event is measured."""
    with asyncio.Runner() as runner:
        event = prepare(size, runner.get_loop())
        yield lambda: sent if isinstance(sent := event(), int) else 0


def size_of(message: object) -> int:
    """Return what a message has as Ray sends it."""
    return len(pickle.dumps(message, protocol=5))
