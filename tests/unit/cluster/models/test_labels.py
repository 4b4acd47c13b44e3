# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Class labels change with the instances that were loaded together with them."""

from dataclasses import replace

from backends.api.errors import InternalError
from tests.support.control_plane_fakes import World, error_of, in_virtual_time, model


def _labels(world: World) -> object:
    return world.lifecycle.records["m"].routing_model().versions[0].labels


@in_virtual_time
async def test_labels_of_a_reload_that_failed_are_not_published() -> None:
    world = World(replace(model("m"), labels={"Y": ("old",)}))
    await world.lifecycle.load("m")
    world.candidates["m"] = replace(model("m", stamp="new"), labels={"Y": ("new",)})
    world.host.fail["m/1#0"] = [InternalError("no weights")]
    await error_of(world.lifecycle.load("m"))
    assert _labels(world) == {"Y": ("old",)}


@in_virtual_time
async def test_labels_of_a_reload_are_published_with_its_instances() -> None:
    world = World(replace(model("m"), labels={"Y": ("old",)}))
    await world.lifecycle.load("m")
    world.candidates["m"] = replace(model("m", stamp="new"), labels={"Y": ("new",)})
    await world.lifecycle.load("m")
    assert _labels(world) == {"Y": ("new",)}
