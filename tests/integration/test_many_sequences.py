# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Thousands of sequences over two instances and two ingresses: cancels, idling, a lost instance.

``make sequences`` runs it with 10,000.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.support.gates import amount
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

# Many sequences at once from asynchronous gRPC clients, over streams and single calls.

# Answers [serial number the sequence started with, requests it has had, process, row of the batch];
# the first two are its implicit state.
MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(row, request) for row, request in enumerate(requests)]

    def one(self, row, request):
        value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        who, count = value("WHO_IN").ravel().tolist()
        if not count:
            who = value("SERIAL").item()
        out = [who, count + 1, os.getpid(), row]
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("WHO_OUT", np.array([out[:2]], np.int64)),
            pb_utils.Tensor("OUT", np.array([out], np.int64))])
"""
CONFIG = """
backend: "python" max_batch_size: %d
input [ { name: "SERIAL" data_type: TYPE_INT64 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT64 dims: [ 4 ] } ]
instance_group [ { kind: KIND_CPU count: 2 } ]
sequence_batching { max_sequence_idle_microseconds: 500000 %s
  control_input { name: "READY"
                  control { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } }
  state { input_name: "WHO_IN" output_name: "WHO_OUT" data_type: TYPE_INT64 dims: [ 2 ] } }
"""
_CHANNEL_COUNT = 8
_LOST = ("ended with it", "ended while it served", "no instance that answers", "lane to instance")
_UNKNOWN = "must specify the START flag"
_FATES = {"ends": 94, "idles": 3, "cancels": 3}
_TIMEOUT_S = 120.0
_IDS_PER_CLIENT = 1_000_000
_IDS_PER_LOAD = 1_000_000_000
_loads = itertools.count()


class UnexpectedError(AssertionError):
    """An answer that no request of these sequences may get."""


def kind_of(message: str) -> str:
    """Return what became of a request that was answered with an error."""
    if any(text in message for text in _LOST):
        return "lost"
    if _UNKNOWN in message:
        # Its instance is lost and this ingress never knew, or it was quiet for too long.
        return "unknown"
    raise UnexpectedError(message)


class Connection:
    """A channel with one stream, whose answers are told apart by the requests' ids."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = GRPCInferenceServiceStub(channel)
        self._stream = self.stub.ModelStreamInfer()
        self._writing = asyncio.Lock()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for answer in self._stream:
            # A second answer to a request finds nothing here, which fails the test.
            self._answers.pop(answer.infer_response.id).set_result(answer)

    async def stream(self, request: Any) -> Any:
        """Send a request over the stream; return its response, or the error's message."""
        future = self._answers[request.id] = asyncio.get_running_loop().create_future()
        async with self._writing:
            await self._stream.write(request)
        answer = await future
        return answer.error_message or answer.infer_response

    async def call(self, request: Any, *, cancel: bool = False) -> Any:
        """Send a request by itself; return its response or the error's message; None: cancelled."""
        call = self.stub.ModelInfer(request)
        if cancel:
            # The request is on its way, or not; either way it ends once.
            await asyncio.sleep(0.002)
            call.cancel()
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            return error.details()
        except asyncio.CancelledError:
            if not cancel:
                raise
            return None

    async def close(self) -> None:
        """End the stream; every request on it must have had its answer."""
        await self._stream.done_writing()
        await self.reader
        assert not self._answers


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[list[Connection]]:
    """Connect several times, so that every ingress gets its share."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options) for _ in range(_CHANNEL_COUNT)]
    connections = [Connection(channel) for channel in channels]
    yield connections
    async with asyncio.timeout(_TIMEOUT_S):
        for connection in connections:
            await connection.close()
    for channel in channels:
        await channel.close()


class SequenceLoad:
    """Sequences of random lengths and fates; each request over a random connection.

    Args:
        connections: Where requests are sent.
        model: A model of ``MODEL`` and ``CONFIG``.
        count: How many sequences.
        fates: What may become of a sequence, with its weight.

    Attributes:
        outcomes: Requests by what became of them; each is counted once.
        slots: Process and row that requests were executed in.
        is_well_under_way: Set when as many requests were answered as there are sequences.
    """

    def __init__(
        self,
        connections: list[Connection],
        model: str,
        count: int,
        fates: dict[str, int] | None = None,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.sent_count = 0
        self.slots: set[tuple[int, int]] = set()
        self.is_well_under_way = asyncio.Event()
        self._connections = connections
        self._model = model
        self._fates = fates or _FATES
        self._count = count
        self._serials = iter(range(1, count + 1))
        self._request_ids = itertools.count()
        self._first_id = next(_loads) * _IDS_PER_LOAD + 1

    async def run(self, client_count: int) -> None:
        """Run all sequences, so many at a time."""
        async with asyncio.TaskGroup() as clients:
            for number in range(client_count):
                clients.create_task(self._client(number))
        assert self.outcomes.total() == self.sent_count

    async def _client(self, number: int) -> None:
        # An id is used again and again while its sequences end; the slots always are.
        sequence_id = self._first_id + number * _IDS_PER_CLIENT
        for serial in self._serials:
            chance = random.Random(f"{self._model}/{serial}")
            async with asyncio.timeout(_TIMEOUT_S):
                if not await self._sequence(serial, sequence_id, chance):
                    sequence_id += 1

    async def _sequence(self, serial: int, sequence_id: int, chance: random.Random) -> bool:
        """Run a sequence; return whether it has ended."""
        length = chance.choices([1, 2, 4, 12], [30, 40, 25, 5])[0]
        fate = chance.choices(list(self._fates), list(self._fates.values()))[0]
        homes = set()
        for index in range(length):
            is_last = index == length - 1
            request = self._request(
                serial, sequence_id, start=index == 0, end=is_last and fate == "ends"
            )
            connection = chance.choice(self._connections)
            self.sent_count += 1
            if is_last and fate == "cancels":
                answer = await connection.call(request, cancel=True)
            elif chance.random() < 0.8:
                answer = await connection.stream(request)
            else:
                answer = await connection.call(request)
            if answer is None:
                self.outcomes["cancelled"] += 1
                return False
            if isinstance(answer, str):
                self.outcomes[kind_of(answer)] += 1
                return False
            self.outcomes["answered"] += 1
            if self.outcomes["answered"] == self._count:
                self.is_well_under_way.set()
            who, count, pid, row = np.frombuffer(answer.raw_output_contents[0], np.int64).tolist()
            assert (who, count) == (serial, index + 1)
            homes.add(pid)
            self.slots.add((pid, row))
        assert len(homes) == 1
        return fate == "ends"

    def _request(self, serial: int, sequence_id: int, *, start: bool, end: bool) -> Any:
        request = pb.ModelInferRequest(model_name=self._model, id=str(next(self._request_ids)))
        request.parameters["sequence_id"].int64_param = sequence_id
        request.parameters["sequence_start"].bool_param = start
        request.parameters["sequence_end"].bool_param = end
        request.inputs.add(name="SERIAL", datatype="INT64", shape=[1, 1])
        request.raw_input_contents.append(np.int64(serial).tobytes())
        return request


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
