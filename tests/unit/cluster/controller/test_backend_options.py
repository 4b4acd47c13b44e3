# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller tells its instances' pools of GPUs, and what it knows again after a restart."""

from cluster.controller.backend_options import device_rules
from cluster.controller.durable_state import DurableState
from cluster.options.parsing import from_mapping
from tests.support import virtual_time
from tests.support.controller_fakes import FakeStore

MB = 1 << 20


def test_the_rules_are_the_servers_options() -> None:
    async def main() -> None:
        state = await DurableState.create(FakeStore())
        given = {
            "model_repository": "/m",
            "min_supported_compute_capability": 7.5,
            "model_load_gpu_limit": ["0:0.5", "3:0.25"],
        }
        rules = device_rules(from_mapping(given), state)
        assert rules.min_compute_capability == 7.5
        assert rules.load_limits == {0: 0.5, 3: 0.25}

    virtual_time.run(main())


def test_measured_memory_outlives_the_controller_and_not_the_server() -> None:
    async def main() -> None:
        store, options = FakeStore(), from_mapping({"model_repository": "/m"})
        state = await DurableState.create(store)
        memory = device_rules(options, state).memory
        memory.measured("d", 5 * MB)
        memory.measured("d", 9 * MB)
        await state.save()
        restored = await DurableState.restore(store)
        assert restored.saved.gpu_memory == {"d": [5 * MB, 9 * MB]}
        assert device_rules(options, restored).memory.peak_bytes("d") == 9 * MB
        anew = await DurableState.create(store)
        assert device_rules(options, anew).memory.peak_bytes("d") == 0

    virtual_time.run(main())
