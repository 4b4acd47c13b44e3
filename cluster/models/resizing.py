# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Another count of instances for a version, as an operation on it.

A resize begins only while no other operation on the version works. It keeps nobody waiting: a load
or an unload cancels it, which is possible at any time because nothing that serves is touched before
all that is new is ready. A poll leaves it alone while the repository has what serves.
"""

from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind


async def resize(model: OperatedModel, version: int, count: int) -> bool:
    """Give a ready version another count of instances.

    Args:
        model: The model.
        version: Version number.
        count: How many instances shall take requests.

    Returns:
        Whether the version has as many now, those that wait for room included; not when another
        operation was under way or has cancelled this one.

    Raises:
        TritonError: A new instance failed to load; what served before still serves.
    """
    operation = await model.run(
        Kind.RESIZE,
        version,
        f"resize to {count} instances",
        lambda operation: model.versions.resize(version, count, operation.block),
    )
    if operation is None:
        return False
    await operation.wait_ended()
    operation.result()
    return not operation.was_cancelled
