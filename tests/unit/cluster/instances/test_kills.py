# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Kills of instances that do not happen."""

import asyncio

from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import FakeHost, anywhere, spec, started, until

TIMEOUT_S = 10.0


@in_virtual_time
async def test_an_instance_that_hangs_is_replaced_though_its_first_kill_failed() -> None:
    host, prober = FakeHost(), Prober(TIMEOUT_S)
    pool = InstancePool(lambda: None, host, prober, anywhere())
    await started(pool, (spec(),))
    (hung,) = host.alive
    hung.progress = None
    host.fail_kill = [ConnectionError("no head")]
    await until(lambda: host.alive and host.alive != [hung])
    await until(lambda: pool.is_live)
    await pool.close(0)
    await prober.close()
    assert not host.alive


@in_virtual_time
async def test_a_kill_that_was_lost_is_repeated() -> None:
    host, prober = FakeHost(), Prober(TIMEOUT_S)
    pool = InstancePool(lambda: None, host, prober, anywhere())
    await started(pool, (spec(),))
    (hung,) = host.alive
    hung.progress = None
    host.lost_kills = 1
    await until(lambda: host.killed == [hung.incarnation])
    await until(lambda: pool.is_live)
    assert [each.name for each in pool.specs] == [spec().name]
    await pool.close(0)
    await prober.close()


@in_virtual_time
async def test_an_instance_that_would_not_die_is_replaced_under_another_name() -> None:
    host, prober = FakeHost(), Prober(TIMEOUT_S)
    pool = InstancePool(lambda: None, host, prober, anywhere())
    await started(pool, (spec(),))
    (hung,) = host.alive
    hung.progress = None
    host.lost_kills = 1000
    await until(lambda: pool.is_live and hung.incarnation not in {*_incarnations(pool)})
    assert [each.name for each in pool.specs] == [spec(1).name]
    assert [actor.spec.name for actor in host.alive] == [spec(0).name, spec(1).name]
    host.lost_kills = 0
    await until(lambda: host.killed == [hung.incarnation])
    assert pool.is_live
    await pool.close(0)
    await prober.close()


@in_virtual_time
async def test_an_actor_that_nobody_knows_of_gives_its_name_back() -> None:
    host, prober = FakeHost(), Prober(0.0)
    unknown = await host.create(spec())
    pool = InstancePool(lambda: None, host, prober, anywhere())
    pool.adopt((), (spec(),))
    await until(lambda: pool.is_live)
    assert host.killed == [unknown.incarnation]
    await pool.close(0)
    await prober.close()


@in_virtual_time
async def test_an_instance_is_ended_though_its_kill_hangs_or_fails_and_nobody_waits() -> None:
    host, prober = FakeHost(), Prober(0.0)
    pool = InstancePool(lambda: None, host, prober, anywhere())
    await started(pool, (spec(),))
    host.hung_kills, host.fail_kill = 1, [ConnectionError("no head")]
    begin_s = asyncio.get_running_loop().time()
    await pool.close(0)
    assert asyncio.get_running_loop().time() - begin_s <= TIMEOUT_S
    assert host.alive
    await until(lambda: not host.alive)
    await prober.close()


def _incarnations(pool: InstancePool) -> list[str]:
    return [endpoint.incarnation for endpoint in pool.endpoints]
