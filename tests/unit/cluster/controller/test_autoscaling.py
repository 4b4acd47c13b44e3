# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller has versions follow the load that routers tell, also after a restart."""

import asyncio
from pathlib import Path

import pytest

from cluster.controller.controller import ModelController
from deployments.contracts.load_report import VersionLoad, encode_loads
from tests.support import virtual_time
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model
from tests.unit.cluster.controller.test_controller import states

RULES = {
    "max_instances": "4",
    "target_ongoing_requests": "2",
    "upscale_delay_s": "2",
    "downscale_delay_s": "10000",
}


async def _tell(controller: ModelController, ongoing: float, seconds: int) -> None:
    for _ in range(seconds):
        await controller.report_load("r", encode_loads([VersionLoad("a", 1, ongoing, ongoing)]))
        await asyncio.sleep(1)


@in_virtual_time
async def test_a_version_follows_the_load_that_routers_tell(folder: Path) -> None:
    write_model(folder, "a", **RULES)
    controller = await controller_of(folder, FakeHost())
    await controller.start()
    await _tell(controller, 6.0, 8)
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    (entry,) = changes.models["a"].versions
    assert (len(entry.instances), entry.desired_instances) == (3, 3)


@pytest.mark.parametrize("died", [(), (1,)])
def test_a_restarted_controller_goes_on_with_the_instances_that_are_alive(
    tmp_path: Path, died: tuple[int, ...]
) -> None:
    async def main() -> None:
        write_model(tmp_path, "a", **RULES)
        host = FakeHost()
        controller = await controller_of(tmp_path, host)
        await controller.start()
        await _tell(controller, 6.0, 8)
        again = host.restarted()
        for actor in [each for each in again.instances.alive if each.spec.index in died]:
            again.instances.vanish(actor)
        again.instances.log.clear()
        successor = await controller_of(tmp_path, again)
        assert states(await successor.start()) == {"a": "READY"}
        assert again.instances.log == []
        await asyncio.sleep(5)
        (entry,) = successor._publisher.table().models["a"].versions
        assert entry.desired_instances == len(entry.instances) == 3 - len(died)

    virtual_time.run(main())


@in_virtual_time
async def test_a_model_with_wrong_rules_is_not_loaded(folder: Path) -> None:
    write_model(folder, "a", max_instances="0")
    controller = await controller_of(folder, FakeHost())
    (row,) = await controller.start()
    assert "autoscaling.max_instances" in row["reason"]
