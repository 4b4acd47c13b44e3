# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Controllers one after the other, over the same store and the same instances."""

from functools import partial
from pathlib import Path
from typing import Any

from cluster.controller.controller import ModelController
from tests.support import controller_fakes
from tests.support.controller_fakes import FakeHost, live_instance, write_model

controller_of = partial(controller_fakes.controller_of, model_control_mode="explicit")


def left_by(
    controller: ModelController, before: FakeHost, *, was_restarted: bool = True
) -> FakeHost:
    """Return the cluster as the next controller finds it.

    Args:
        controller: The one that has died.
        before: Its cluster.
        was_restarted: Whether Ray starts the next one, or another driver.
    """
    models = controller._lifecycle._models.values()
    pools = [pool for model in models for pool in model.versions.pools.values()]
    host = before.restarted(live_instance(spec) for pool in pools for spec in pool.specs)
    host.was_restarted = was_restarted
    return host


async def with_two_models(folder: Path, **options: Any) -> tuple[ModelController, FakeHost]:
    host = FakeHost()
    for name in ("a", "b"):
        write_model(folder, name)
    controller = await controller_of(folder, host, **options)
    await controller.start()
    for name in ("a", "b"):
        await controller.load(name, {})
    return controller, host


async def ready(controller: ModelController) -> list[str]:
    rows = await controller.status()
    return sorted(row["name"] for row in rows if row["state"] == "READY")
