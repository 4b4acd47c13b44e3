# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Another count of instances for a version, as an operation on its model.

A resize begins only while no other operation is under way. It keeps nobody waiting: a load or an
unload cancels it, which is possible at any time because nothing that serves is touched before all
that is new is ready. A poll leaves it alone while the repository has what serves.
"""

import asyncio
from collections.abc import Callable

from cluster.models import operation
from cluster.models.operated_model import OperatedModel


async def resize(
    model: OperatedModel,
    version: int,
    count: int,
    followed: Callable[[operation.Work], operation.Work],
) -> bool:
    """Give a ready version another count of instances.

    Args:
        model: The model.
        version: Version number.
        count: How many instances shall take requests.
        followed: Has the end of the lifecycle wait for the task.

    Returns:
        Whether the version has as many now, those that wait for room included; not when another
        operation was under way or has cancelled this one.

    Raises:
        TritonError: A new instance failed to load; what served before still serves.
    """
    if model.lock.locked() or operation.is_running(model.work):
        return False
    async with model.lock:
        model.blocked.clear()
        work = operation.begin(f"resize to {count} instances", _resize(model, version, count))
        model.work = followed(work)
    await asyncio.wait({work})
    if work.cancelled():
        return False
    work.result()
    return True


async def _resize(model: OperatedModel, version: int, count: int) -> None:
    # A poll that finds the same files lets it go on.
    model.loading = model.versions.candidate
    try:
        await model.versions.resize(version, count)
    finally:
        model.loading = None
