# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a gang instance reserves comes and goes with it."""

from dataclasses import replace

from cluster.instances.live import find_live_instances, kill_instances
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from deployments.instance.spec import Gang, InstanceSpec
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import FakeHost, anywhere, spec, started, until


def gang(index: int = 0) -> InstanceSpec:
    return replace(spec(index), gang=Gang(({"GPU": 1.0}, {"GPU": 1.0}), "STRICT_SPREAD"))


def pool_of(host: FakeHost) -> InstancePool:
    return InstancePool(lambda: None, host, Prober(0.0), anywhere())


@in_virtual_time
async def test_a_group_ends_with_its_instance() -> None:
    host = FakeHost()
    pool = pool_of(host)
    await started(pool, [gang(0), gang(1), spec(2)])
    assert host.groups == {gang(0).name, gang(1).name}
    pool.commit([gang(0).name])
    await pool.let_go(1.0)
    assert host.groups == {gang(1).name}
    await pool.close(1.0)
    assert host.groups == set()


@in_virtual_time
async def test_an_instance_that_crashes_keeps_its_group() -> None:
    host = FakeHost()
    pool = pool_of(host)
    await started(pool, [gang()])
    host.crash(host.actors[0])
    await until(lambda: not pool.endpoints)
    await until(lambda: pool.endpoints)
    assert host.groups == {gang().name}
    await pool.close(1.0)


@in_virtual_time
async def test_a_new_controller_adopts_groups_and_removes_those_without_an_instance() -> None:
    host = FakeHost()
    await host.create(gang(0))
    host.groups.add("m/1#1@1")
    live = (await find_live_instances(host)).described
    assert host.groups == {gang(0).name}
    after = pool_of(host)
    after.adopt(live, ())
    await after.close(1.0)
    assert host.groups == set()


@in_virtual_time
async def test_an_orphan_is_killed_with_its_group() -> None:
    host = FakeHost()
    pool = pool_of(host)
    await started(pool, [gang()])
    await kill_instances(host, (await find_live_instances(host)).described)
    assert host.groups == set()
    await pool.close(0)
