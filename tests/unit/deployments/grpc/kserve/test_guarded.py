# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gRPC port with an access policy."""

import asyncio
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest
from tritonclient.grpc import service_pb2

from deployments.access.contracts import Peer, Role
from deployments.data_plane.callers import Access
from deployments.grpc.kserve.guarded import make_grpc_gate
from deployments.grpc.kserve.health import WATCH_PATH
from deployments.grpc.kserve.service import PATHS, STREAM_PATH
from deployments.grpc.server.http2_server import Http2Server
from tests.support import virtual_time
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import RecordedReply, grpcio_server, infer_request, rpc_path
from tests.support.key_guard import EVERYTHING, UNKNOWN_CREDENTIALS, KeyGuard

UNAUTHENTICATED, PERMISSION_DENIED = 16, 7


def metadata(key):
    return ((b"authorization", b"Bearer " + key.encode()),) if key else ()


@pytest.fixture
def guard():
    guard = KeyGuard()
    guard.grant("good", *EVERYTHING)
    guard.grant("some", (Role.INFER, "id*"), (Role.METADATA, "id*"))
    return guard


@pytest.fixture
def gate(plane, guard):
    return make_grpc_gate(plane, Access(guard))


@pytest.fixture
def service(gate):
    return gate.service_for(Peer("grpc"))


def refused(service, path, key):
    """Begin a call that is refused; return its status and text."""
    reply = RecordedReply()
    assert service.start(path, metadata(key), reply) is None
    return reply.status, reply.details


def outcome(service, rpc, key, request):
    reply = RecordedReply()
    call = service.start(rpc_path(rpc), metadata(key), reply)
    if call is not None:
        call.message(request.SerializeToString())
        call.half_closed()
    return reply.status, reply.details


@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize("key", ["", "bad"])
async def test_no_method_takes_a_message_without_valid_credentials(service, path, key):
    assert refused(service, path, key) == (UNAUTHENTICATED, UNKNOWN_CREDENTIALS)


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_no_method_takes_a_message_without_its_role(service, guard, path):
    guard.grant("nothing")
    status, text = refused(service, path, "nothing")
    assert status == PERMISSION_DENIED
    assert "may not do this: the role" in text
    assert guard.noted[-1][-1] == "denied"


async def test_an_unknown_method_is_unimplemented_to_callers_only(service):
    assert refused(service, b"/no/Such", "")[0] == UNAUTHENTICATED
    assert refused(service, b"/no/Such", "some") == (None, "")


@pytest.mark.parametrize("rpc", ["ModelInfer", "ModelMetadata", "ModelConfig"])
async def test_a_denied_model_gets_the_same_answer_as_one_that_is_not_there(service, rpc):
    outcomes = []
    for name in ("simple", "absent", "space/simple"):
        request = (
            infer_request(name)
            if rpc == "ModelInfer"
            else getattr(service_pb2, f"{rpc}Request")(name=name)
        )
        status, text = outcome(service, rpc, "some", request)
        outcomes.append((status, text.replace(name.rpartition("/")[2], "NAME")))
    assert outcomes[0][0] == PERMISSION_DENIED
    assert outcomes[0] == outcomes[1] == outcomes[2]


async def test_calls_with_headers_that_were_seen_are_asked_about_once(service, guard):
    shown = metadata("good")
    for _ in range(4):
        assert service.start(rpc_path("ModelInfer"), shown, RecordedReply()) is not None
    assert guard.asked == 1
    guard.revoke("good")
    assert service.start(rpc_path("ModelInfer"), shown, RecordedReply()) is None


def stream_message(model="simple"):
    return infer_request(model).SerializeToString()


async def test_a_stream_ends_with_the_first_message_after_its_caller_was_revoked(service, guard):
    reply = RecordedReply()
    call = service.start(STREAM_PATH, metadata("good"), reply)
    call.message(stream_message())
    guard.revoke("good")
    call.message(stream_message())
    assert (reply.status, reply.details) == (UNAUTHENTICATED, UNKNOWN_CREDENTIALS)
    call.message(stream_message())
    call.half_closed()
    call.cancelled()


async def test_a_stream_goes_on_with_the_rights_of_a_new_policy(service, guard, plane):
    reply = RecordedReply()
    call = service.start(STREAM_PATH, metadata("good"), reply)
    guard.grant("good", (Role.INFER, "id*"))
    call.message(stream_message())
    call.half_closed()
    await reply.done.wait()
    assert "the role 'infer' is needed for the model" in reply.streamed[0].error_message
    assert reply.status == 0


async def test_a_stream_asks_again_when_its_credentials_may_have_ended(plane, guard):
    now = SimpleNamespace(s=100.0)
    gate = make_grpc_gate(plane, Access(guard))
    gate.wall_s = gate.now_s = lambda: now.s
    guard.grant("brief", *EVERYTHING, expires_s=105.0)
    reply = RecordedReply()
    call = gate.service_for(Peer("grpc")).start(STREAM_PATH, metadata("brief"), reply)
    asked = guard.asked
    now.s = 104.9
    call.message(stream_message())
    assert guard.asked == asked
    now.s = 105.0
    call.message(stream_message())
    assert guard.asked == asked + 1


async def test_metadata_with_credentials_never_reaches_a_model(plane, guard):
    gate = make_grpc_gate(plane, Access(guard), header_forward_pattern=".*")
    reply = RecordedReply()
    shown = (*metadata("good"), (b"x-api-key", b"secret"), (b"mine", b"yes"))
    call = gate.service_for(Peer("grpc")).start(rpc_path("ModelInfer"), shown, reply)
    call.message(stream_message())
    await plane.arrived.wait()
    parameters = plane.jobs[0].request.parameters
    assert parameters["mine"] == "yes"
    assert "authorization" not in parameters
    assert "x-api-key" not in parameters


async def test_a_restricted_protocol_still_needs_its_metadata(plane, guard):
    gate = make_grpc_gate(plane, Access(guard), [(("inference",), "pass", "open")])
    reply = RecordedReply()
    service = gate.service_for(Peer("grpc"))
    assert service.start(rpc_path("ModelInfer"), metadata("good"), reply) is None
    text = "This protocol is restricted, expecting header 'triton-grpc-protocol-pass'"
    assert (reply.status, reply.details) == (14, text)


@pytest.fixture(params=[grpcio_server, Http2Server])
async def address(request, gate):
    server = request.param(gate.service_for(Peer("grpc")), service_for=gate.service_for)
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0, reuse_port=False)}"
    server.close()
    await server.wait_drained(0)


@pytest.mark.parametrize("path", ["ModelInfer", "ModelStreamInfer", "ServerLive"])
async def test_stock_clients_are_refused_before_they_send_anything(address, path):
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(rpc_path(path).decode())(metadata=[])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(call.read(), 20)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert caught.value.details() == UNKNOWN_CREDENTIALS


async def test_stock_clients_with_credentials_are_served(address):
    shown = [("authorization", "Bearer good")]
    async with grpc.aio.insecure_channel(address) as channel:
        for _ in range(3):
            live = channel.unary_unary(rpc_path("ServerLive").decode())
            answer = await live(b"", metadata=shown)
            assert service_pb2.ServerLiveResponse.FromString(answer).live


@pytest.mark.parametrize("end", ["key", "role"])
def test_a_watch_ends_when_its_caller_may_ask_no_longer(end):
    async def main():
        guard = KeyGuard()
        guard.grant("good", *EVERYTHING)
        service = make_grpc_gate(fake_plane(), Access(guard)).service_for(Peer("grpc"))
        reply = RecordedReply()
        call = service.start(WATCH_PATH, metadata("good"), reply)
        call.message(b"")
        guard.grant("another", *EVERYTHING)
        await asyncio.sleep(10)
        assert (len(reply.messages), reply.status) == (1, None)
        if end == "key":
            guard.revoke("good")
        else:
            guard.grant("good", (Role.INFER, "*"))
        await asyncio.sleep(10)
        assert (len(reply.messages), reply.status) == (
            1,
            UNAUTHENTICATED if end == "key" else PERMISSION_DENIED,
        )

    virtual_time.run(main())
