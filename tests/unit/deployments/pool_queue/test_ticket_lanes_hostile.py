# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes of tickets whose peer lies, proves nothing or speaks TLS wrongly."""

import asyncio
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.api.errors import UnavailableError
from deployments.lane import connection
from deployments.lane.frames import (
    CALL,
    ERROR,
    FLAG_FINAL,
    GRANT,
    INFER,
    LEASE,
    LEASE_END,
    LOAD,
    PING,
    RELEASE,
    SEQUENCE,
    SETUP,
    SLAB,
    TICKET,
    WITHDRAW,
)
from deployments.lane.handshake import ServerHandshake
from deployments.lane.messages import ErrorMessage, Setup, encode
from deployments.pool_queue.messages import Grant, LeaseEnd, Missing, Question, Ticket
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from tests.support.certificates import make_certificates
from tests.support.examples import examples
from tests.support.lane_rig import SECRET, RawPeer, frame, until
from tests.support.ticket_rig import (
    CONFIG,
    EPOCH,
    Request,
    Router,
    TicketRig,
    connected,
    holder_by_hand,
    listening,
    ticket_count,
    unused_name,
)
from tests.unit.deployments.lane.test_lane_tls import _tls

A_TICKET = encode(Ticket("model", 1))
HOSTILE_TO_HOLDER = {
    "unknown_kind": frame(99),
    "infer": frame(INFER, 1, A_TICKET),
    "call": frame(CALL, 1, A_TICKET),
    "slab": frame(SLAB, 1, bytes(12)),
    "release": frame(RELEASE, 1, bytes(12)),
    "setup_again": frame(SETUP, message=encode(Setup())),
    "grant": frame(GRANT, 0, encode(Grant(1, 1, "a", [1]))),
    "tail": frame(TICKET, 1, A_TICKET, b"tail"),
    "garbage": frame(TICKET, 1, b"\xc1"),
    "empty": frame(TICKET, 1),
    "wrong_types": frame(TICKET, 1, encode([1, 2])),
    "same_number_twice": frame(TICKET, 1, A_TICKET) * 2,
    "negative_size": frame(TICKET, 1, encode(Ticket("model", 1, batch_size=-1))),
    "negative_time": frame(TICKET, 1, encode(Ticket("model", 1, queued_ns=-1))),
    "negative_wait": frame(TICKET, 1, encode(Ticket("model", 1, waited_ns=-1))),
    "deep_signature": frame(TICKET, 1, encode(Ticket("model", 1, signature=[[[[[[]]]]]]))),
    "signature_of_maps": frame(TICKET, 1, encode(Ticket("model", 1, signature={"a": 1}))),
    "missing_garbage": frame(WITHDRAW, 1, b"\xc1"),
    "lease_end_garbage": frame(LEASE_END, 1, b"\xc1"),
    "question_garbage": frame(LOAD, 1, b"\xc1"),
    "sequence_garbage": frame(SEQUENCE, 1, b"\xc1"),
    "huge_message": frame(TICKET, 1)[:8] + b"\xff" * 12,
}


@pytest.mark.parametrize("attack", HOSTILE_TO_HOLDER)
def test_a_bad_frame_closes_the_lane_and_harms_no_other(run, attack, caplog):
    async def main():
        async with TicketRig() as rig:
            peer = await rig.raw()
            client = await rig.client()
            peer.write(frame(TICKET, 5, A_TICKET) + HOSTILE_TO_HOLDER[attack])
            await peer.closed_by_peer()
            peer.die()
            await until(lambda: len(rig.server.lanes) == 1)
            assert ticket_count(rig.server) == 0
            client.start(Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            await until(lambda: rig.router.parts)

    run(main)
    assert "lane of tickets from a router closed: " in caplog.text


def test_frames_about_what_is_over_are_no_crime(run):
    async def main():
        async with TicketRig() as rig:
            peer = await rig.raw()
            for sent in (
                frame(WITHDRAW, 9),
                frame(WITHDRAW, 0, encode(Missing("gone", 1, 1, 1, "a"))),
                frame(LEASE_END, 0, encode(LeaseEnd("gone", 1, 1))),
                frame(LOAD, 0, encode(Question("gone", 1))),
                frame(LOAD, 0, encode(Question("gone", 1, is_over=True))),
                frame(PING, 3),
            ):
                peer.write(sent)
            answer = await peer.next_frame()
            assert answer.request_id == 3
            peer.die()
            await until(lambda: not rig.server.lanes)

    run(main)


HOSTILE_TO_ROUTER = {
    "grant_of_nothing": frame(GRANT, 0, encode(Grant(1, 1, "a", []))),
    "grant_of_unknown": frame(GRANT, 0, encode(Grant(1, 1, "a", [1, 7]))),
    "grant_twice": frame(GRANT, 0, encode(Grant(1, 1, "a", [1, 1]))),
    "grant_of_two_models": frame(GRANT, 0, encode(Grant(1, 1, "a", [1, 2]))),
    "slots_missing": frame(GRANT, 0, encode(Grant(1, 1, "a", [1], [1, 2]))),
    "ids_missing": frame(GRANT, 0, encode(Grant(1, 1, "a", [1], [1], [1, 2]))),
    "garbage": frame(GRANT, 0, b"\xc1"),
    "error_of_unknown": frame(ERROR, 9, encode(ErrorMessage("Internal", "x")), flags=FLAG_FINAL),
    "error_garbage": frame(ERROR, 1, b"\xc1", flags=FLAG_FINAL),
    "not_withdrawn": frame(WITHDRAW, 1),
    "load_garbage": frame(LOAD, 1, b"\xc1"),
    "lease_garbage": frame(LEASE, 1, b"\xc1"),
    "ticket": frame(TICKET, 1, A_TICKET),
}


@pytest.mark.parametrize("attack", HOSTILE_TO_ROUTER)
def test_a_bad_answer_gives_the_requests_back(run, attack):
    async def main():
        async def serve(peer):
            for _ in range(2):
                await peer.next_frame()
            peer.write(HOSTILE_TO_ROUTER[attack])
            await peer.closed_by_peer()

        server = await holder_by_hand(serve)
        router = Router()
        options = TicketLaneOptions(SECRET, router)
        address = server.sockets[0].getsockname()[:2]
        lane = await TicketLane(options, is_local=False, epoch=EPOCH).open_tcp(address, None)
        requests = [Request(), Request()]
        lane.queue_of("idle", 1, CONFIG)
        for name, request in zip(("model", "other"), requests, strict=True):
            lane.queue_of(name, 1, CONFIG).start(request)
        await lane.wait_ended()
        assert router.back == requests
        assert not router.parts
        server.close()

    run(main)


def test_a_stranger_gets_no_lane_and_no_holder_of_another_epoch_gets_tickets(run):
    async def main():
        async with TicketRig() as rig:
            with pytest.raises(UnavailableError, match=f"holder-{EPOCH}"):
                await rig.remote_lane(epoch=EPOCH + 1)
            await until(lambda: rig.queues.lost)
            stranger = RawPeer(*await asyncio.open_connection(*rig.address))
            stranger.write(b"GET / HTTP/1.1\r\n\r\nand then some more of it.....")
            await stranger.closed_by_peer()
            stranger.die()
            await until(lambda: not rig.server.lanes)
            assert len(rig.queues.lost) == 1

    run(main)


def test_an_instance_behind_the_port_is_no_holder(run):
    async def main():
        async def accept(reader, writer):
            peer = RawPeer(reader, writer)
            handshake = ServerHandshake(SECRET, os.urandom(32))
            peer.write(handshake.feed(await reader.readexactly(40)))
            handshake.feed(await reader.readexactly(32))
            peer.write(frame(SETUP, message=encode(Setup(incarnation="model/1#0-7"))))
            await peer.closed_by_peer()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        options = TicketLaneOptions(SECRET, Router())
        address = server.sockets[0].getsockname()[:2]
        with pytest.raises(UnavailableError, match="'model/1#0-7' answers"):
            await TicketLane(options, is_local=False).open_tcp(address, None)
        server.close()

    run(main)


def test_too_many_strangers_are_cut_off(run, monkeypatch):
    monkeypatch.setattr(connection, "MAX_UNPROVED_COUNT", 2)

    async def main():
        async with TicketRig() as rig:
            peers = [RawPeer(*await asyncio.open_connection(*rig.address)) for _ in range(3)]
            await peers[2].closed_by_peer()
            assert connection.unproved_count(each.connection for each in rig.server.lanes) == 2
            for peer in peers:
                peer.die()
            await until(lambda: not rig.server.lanes)

    run(main)


def test_lanes_between_nodes_speak_tls_with_certificates_of_the_cluster(run, tmp_path):
    make_certificates(tmp_path)
    tls = _tls(tmp_path)
    stranger = _tls(tmp_path, "stranger")

    async def main():
        async with TicketRig(tls=tls.server) as rig:
            lane = await rig.remote_lane(tls=tls.client)
            lane.queue_of("model", 1, CONFIG).start(Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            await until(lambda: rig.router.parts)
            for context in (None, stranger.client):
                with pytest.raises(UnavailableError):
                    await rig.remote_lane(tls=context)
            lane.close()
            await until(lambda: not rig.server.lanes)

    run(main)


_MESSAGES = st.sampled_from(
    [
        A_TICKET,
        encode(Ticket("model", 1, signature=[("A", (1,), b"")])),
        encode(Ticket("new", 2)),
        encode(Missing("model", 1, 1, 1, "a")),
        encode(LeaseEnd("model", 1, 1)),
        encode(Question("model", 1)),
        encode(Question("model", 1, when_free=True)),
        b"",
        b"\xc1",
    ]
) | st.binary(max_size=40)
_FRAMES = st.lists(
    st.tuples(
        st.sampled_from([TICKET, TICKET, TICKET, WITHDRAW, LEASE_END, LOAD, PING]),
        st.integers(0, 4),
        _MESSAGES,
    ),
    max_size=12,
)


def test_whatever_a_router_sends_nothing_is_left_of_it(run):
    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(frames=_FRAMES, piece=st.integers(1, 200))
    def check(frames, piece):
        async def main():
            async with TicketRig() as rig:
                peer = await rig.raw()
                sent = b"".join(frame(*each) for each in frames)
                for at in range(0, len(sent), piece):
                    peer.write(sent[at : at + piece])
                peer.write(frame(PING, 77))
                # Either it is cut off, or it gets its answer.
                try:
                    while (await peer.next_frame()).request_id != 77:
                        pass
                except (EOFError, ConnectionError):
                    assert not rig.server.lanes
                numbers = [ticket.number for ticket in rig.queue.came]
                assert len(set(numbers)) == len(numbers) == ticket_count(rig.server)
                peer.die()
                await until(lambda: not rig.server.lanes)
                assert ticket_count(rig.server) == 0
                assert not rig.queue.came
                assert not rig.queue.reports._hearers

        run(main)

    check()


def test_a_peer_that_hangs_up_at_once_leaves_no_descriptor_to_close_twice(run):
    async def main():
        name = unused_name()
        with listening(name) as listener:
            for _ in range(20):
                sock = connected(name)
                peer, _ = listener.accept()
                with peer:
                    peer.send(b"HTTP/1.1 200 OK\r\n" * 9)
                lane = TicketLane(TicketLaneOptions(SECRET, Router()), is_local=True)
                with pytest.raises(UnavailableError):
                    await lane.open_unix(sock)
                await until(lambda sock=sock: sock.fileno() == -1)

    run(main)
