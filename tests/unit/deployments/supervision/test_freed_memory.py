# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When an ingress gives memory of large messages back, and that the kernel gets it."""

import asyncio
import subprocess
import sys

from deployments.supervision.freed_memory import INTERVAL_S, FreedMemory
from deployments.supervision.memory_budget import MemoryBudget
from tests.support import virtual_time

MIB = 1 << 20
# Pieces that are freed with something small behind them stay malloc's; what is under 512 bytes is
# not malloc's but Python's.
FREES = """
from deployments.supervision.freed_memory import trim_malloc

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

held = []
for _ in range(2000):
    held.append((bytearray(100_000), bytearray(1000)))
full = resident_bytes()
held = [small for _, small in held]
kept = resident_bytes()
trim_malloc()
print(full, kept, resident_bytes())
"""


class _Trims:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def trims_of(*held_bytes: int) -> int:
    """Return how often memory is given back while messages hold that much, for a while each."""
    budget, trim = MemoryBudget(1 << 40), _Trims()

    async def lives() -> None:
        task = asyncio.create_task(FreedMemory(budget, trim).run())
        await asyncio.sleep(INTERVAL_S / 2)
        for each in held_bytes:
            budget.give_back(budget.used_bytes)
            budget.take(each)
            await asyncio.sleep(INTERVAL_S)
        task.cancel()

    virtual_time.run(lives())
    return trim.count


def test_memory_is_given_back_once_a_large_message_has_ended() -> None:
    assert trims_of(300 * MIB) == 0
    assert trims_of(300 * MIB, 0) == 1
    assert trims_of(300 * MIB, 0, 0, 0) == 1
    assert trims_of(300 * MIB, 0, 300 * MIB, 0) == 2


def test_a_large_message_that_came_and_went_between_two_looks_counts() -> None:
    budget, trim = MemoryBudget(1 << 40), _Trims()
    budget.take(64 * MIB)
    budget.give_back(64 * MIB)

    async def lives() -> None:
        task = asyncio.create_task(FreedMemory(budget, trim).run())
        await asyncio.sleep(1.5 * INTERVAL_S)
        assert trim.count == 1
        await asyncio.sleep(INTERVAL_S)
        task.cancel()

    virtual_time.run(lives())
    assert trim.count == 1


def test_memory_is_kept_while_large_messages_go_on_or_all_are_small() -> None:
    assert trims_of(300 * MIB, 200 * MIB, 160 * MIB, 300 * MIB) == 0
    assert trims_of(MIB, 0, 8 * MIB, 0) == 0


def test_what_is_left_of_many_large_messages_is_given_back_in_the_end() -> None:
    assert trims_of(300 * MIB, 200 * MIB, 160 * MIB, 100 * MIB, 90 * MIB, 10 * MIB, 0) == 2


def test_the_kernel_gets_pages_between_what_is_in_use() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREES],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ".", "MANTA_COMPILED": "0"},
    )
    full, kept, left = map(int, done.stdout.split())
    assert full - kept < 50 * MIB
    assert full - left > 150 * MIB
