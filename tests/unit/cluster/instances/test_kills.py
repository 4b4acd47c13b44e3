# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Kills of instances that do not happen."""

from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.instance_host import FakeHost, spec, until

TIMEOUT_S = 10.0


@in_virtual_time
async def test_an_instance_that_hangs_is_replaced_though_its_first_kill_failed() -> None:
    host, prober = FakeHost(), Prober(TIMEOUT_S)
    pool = InstancePool(lambda: None, host, prober)
    await pool.start((spec(),))
    (hung,) = host.alive
    hung.progress = None
    host.fail_kill = [ConnectionError("no head")]
    await until(lambda: host.alive and host.alive != [hung])
    await until(lambda: pool.is_live)
    await pool.close(0)
    await prober.close()
    assert not host.alive
