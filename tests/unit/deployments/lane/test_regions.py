# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about tensors in clients' shared memory on a lane: the instance reads and writes them."""

import uuid
from pathlib import Path

import pytest

from backends.api.errors import InternalError
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.settings.server_settings import Region
from deployments.shared_memory.system import HeldObjects
from tests.support.lane_rig import Handler, Rig, Sink

SIZE = 300_000
HELD = HeldObjects()


@pytest.fixture
def path():
    path = Path("/dev/shm", f"manta-test-{uuid.uuid4().hex}")
    path.write_bytes(b"i" * SIZE + b"\0" * SIZE)
    yield path
    path.unlink(missing_ok=True)


def request_in(path, *, output_bytes=SIZE):
    source = HELD.hold(Region("r", f"/{path.name}", 0, 2 * SIZE)).source
    inline = Tensor("B", "UINT8", (3,), memoryview(b"abc"))
    return InferenceRequest(
        "m",
        inputs=[Tensor("A", "UINT8", (SIZE,), EMPTY, Extent(source, 0, SIZE)), inline],
        regions={"OUT": Extent(source, SIZE, output_bytes)},
    )


def upper(server_request):
    given = server_request.request
    assert all(tensor.extent is None for tensor in given.inputs)
    outputs = [
        Tensor("OUT", "UINT8", (SIZE,), memoryview(bytes(given.inputs[0].data).upper())),
        Tensor("REST", "UINT8", (3,), memoryview(bytes(given.inputs[1].data).upper())),
    ]
    server_request.respond(InferenceResponse("m", "1", "", outputs), final=True)


def test_instance_reads_inputs_from_and_writes_outputs_to_the_region(run, path):
    async def main():
        async with Rig(Handler(upper)) as rig:
            lane = await rig.connect()
            for _ in range(2):
                sink = Sink()
                lane.submit(request_in(path), sink)
                await sink.ended
                (response,) = sink.responses
                assert [bytes(each.data) for each in response.outputs] == [b"", b"ABC"]
                assert path.read_bytes()[SIZE:] == b"I" * SIZE
            assert rig.client_slabs.mapped_bytes == rig.server_slabs.mapped_bytes == 0

    run(main)


def test_output_too_large_for_its_place_ends_the_request(run, path):
    async def main():
        async with Rig(Handler(upper)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_in(path, output_bytes=8), sink)
            await sink.ended
            assert isinstance(sink.error, InternalError)
            assert "'OUT' (8 bytes) should be at least 300000 bytes" in sink.error.message
            assert lane.is_open

    run(main)


def test_object_that_is_gone_fails_its_request_alone(run, path):
    async def main():
        async with Rig(Handler(upper)) as rig:
            lane = await rig.connect()
            request = request_in(path)
            HELD.settle(request.inputs[0].extent.source, is_registered=False)
            path.unlink()
            sink = Sink()
            lane.submit(request, sink)
            await sink.ended
            assert "Unable to open shared memory region" in sink.error.message
            assert rig.handler.batches == []
            assert lane.is_open

    run(main)
