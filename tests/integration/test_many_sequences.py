# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Thousands of sequences over two instances and two ingresses: cancels, idling, a lost instance.

``make sequences`` runs it with 10,000.
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.gates import amount
from tests.support.model_folders import write_folder
from tests.support.sequence_load import CONFIG, MODEL, SequenceLoad, connected
from tests.support.server import RunningServer
from tests.support.shared_server import brought

COUNT = amount(1000, 3000, "MANTA_SEQUENCES")
SLOTS = 8
STRATEGIES = {
    "direct": (SLOTS, "direct { }"),
    # More candidates than a batch has rows.
    "oldest": (4, "oldest { max_candidate_sequences: 8 }"),
}
# More than there are slots, so that some always wait.
CLIENTS = 40


@pytest.fixture(scope="module")
def server(
    surface: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("many_sequences")
    for name, fields in STRATEGIES.items():
        write_folder(repository, name, CONFIG % fields, MODEL)
    with brought(surface, repository) as running:
        yield running


async def run_over(server: RunningServer, model: str) -> None:
    async with connected(server.grpc) as connections:
        load = SequenceLoad(connections, model, COUNT)
        running = asyncio.create_task(load.run(CLIENTS))
        await asyncio.wait(
            [running, asyncio.create_task(load.is_well_under_way.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        victim, _ = server.processes(f"ray::{model}/1")
        await asyncio.to_thread(server.kill, victim)
        await running
        assert load.outcomes["answered"] > COUNT
        assert load.outcomes["cancelled"]

        # Each slot of both instances, the new one's too, serves again, and soon without an error.
        slots: set[tuple[int, int]] = set()
        outcomes: set[str] = set()
        async with asyncio.timeout(120):
            while len(slots) < 2 * STRATEGIES[model][0] or outcomes != {"answered"}:
                after = SequenceLoad(connections, model, 100, {"ends": 1})
                await after.run(CLIENTS)
                outcomes = set(after.outcomes)
                slots |= {slot for slot in after.slots if slot[0] != victim.pid}


@pytest.mark.timeout(120 + COUNT / 10)
@pytest.mark.parametrize("model", STRATEGIES)
def test_every_request_ends_once_no_slot_is_lost_and_no_state_leaks(
    server: RunningServer, model: str
) -> None:
    asyncio.run(run_over(server, model))
