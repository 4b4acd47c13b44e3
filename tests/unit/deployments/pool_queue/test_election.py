# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Of a node's processes one holds the queues, whoever starts, leaves or dies, and when."""

import asyncio
import select
import signal
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from deployments.lane.messages import LaneLimits
from deployments.pool_queue import election
from deployments.pool_queue.connection import ticket_limits_of
from deployments.pool_queue.election import Candidacy, socket_name
from deployments.pool_queue.holder_port import HolderPort
from deployments.pool_queue.ticket_server import TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from deployments.settings.lane_settings import LaneSettings
from tests.support.free_ports import free_ports
from tests.support.lane_rig import SECRET, until
from tests.support.ticket_rig import (
    CONFIG,
    Queues,
    Request,
    Router,
    connected,
    listening,
    ticket_count,
    unused_name,
)


class Candidate:
    """A process's candidacy, and what it has heard."""

    def __init__(self, name, *, may_hold=True, limits=None, silence_s=0.0, port=None):
        self.heard = []
        self.router = Router()
        self.queues = Queues()
        self.server = TicketServer(self.queues, secret=SECRET) if may_hold else None
        options = TicketLaneOptions(SECRET, self.router, limits or LaneLimits(), silence_s)
        self.candidacy = Candidacy(
            name, self.server, options, self.became_holder, self.follow, port=port
        )
        self.candidacy.start()

    def became_holder(self, epoch):
        assert self.candidacy.epoch == epoch
        self.heard.append("holder")

    def follow(self, lane):
        assert lane is self.candidacy.lane
        assert lane is None or lane.is_local is True
        assert lane is None or lane.is_open
        self.heard.append("lost" if lane is None else "connected")


@asynccontextmanager
async def candidates(*made):
    try:
        yield made
    finally:
        for each in made:
            await each.candidacy.close()


async def settled(those):
    """Wait until one of them holds and the others have a lane to it."""

    def is_settled():
        holders = [each for each in those if each.candidacy.is_holder]
        epochs = {each.candidacy.lane.epoch for each in those if each.candidacy.lane is not None}
        return (
            len(holders) == 1
            and epochs <= {holders[0].candidacy.epoch}
            and all(each.candidacy.is_holder or each.candidacy.lane is not None for each in those)
        )

    await until(is_settled)
    return next(each for each in those if each.candidacy.is_holder)


async def tried():
    """Let candidates, which begin in the loop's next turn, find out whether they can hold."""
    for _ in range(5):
        await asyncio.sleep(0)


async def called(sock):
    """Wait until somebody connects to a socket that accepts nobody."""
    await until(lambda: select.select([sock], [], [], 0)[0])


def test_the_name_tells_the_node_and_not_the_secret():
    names = {socket_name(secret, node) for secret in (b"s" * 16, b"t" * 16) for node in "ab"}
    assert len(names) == 4
    assert socket_name(b"s" * 16, "a") in names
    for name in names:
        assert name.startswith("\0manta/holder/")
        assert len(name) <= 107
        assert "s" * 4 not in name


def test_one_of_many_that_start_at_once_holds(run):
    async def main():
        name = unused_name()
        async with candidates(*(Candidate(name) for _ in range(8))) as all_of_them:
            holder = await settled(all_of_them)
            assert holder.heard == ["holder"]
            await until(lambda: len(holder.server.lanes) == 7)
            assert [each.heard for each in all_of_them].count(["connected"]) == 7

    run(main)


def test_who_may_not_hold_waits_for_a_holder(run):
    async def main():
        name = unused_name()
        async with candidates(Candidate(name, may_hold=False)) as (instance,):
            await tried()
            assert not instance.heard
            async with candidates(Candidate(name)) as (ingress,):
                await until(lambda: instance.heard)
            assert ingress.heard == ["holder"]
            await until(lambda: instance.heard == ["connected", "lost"])
            assert not instance.candidacy.is_holder

    run(main)


def test_who_has_lost_its_holder_tries_again_until_there_is_another(run, caplog):
    async def main():
        name = unused_name()
        async with candidates(Candidate(name, may_hold=False)) as (user,):
            for _ in range(2):
                async with candidates(Candidate(name)):
                    await until(lambda: user.candidacy.lane is not None)
                await until(lambda: user.candidacy.lane is None)
                await tried()
            assert user.heard == ["connected", "lost"] * 2

    run(main)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_successor_has_a_later_epoch_and_gets_the_tickets(run):
    async def main():
        name = unused_name()
        async with candidates(*(Candidate(name) for _ in range(3))) as all_of_them:
            first = await settled(all_of_them)
            epoch = first.candidacy.epoch
            user = next(each for each in all_of_them if each is not first)
            request = Request()
            user.candidacy.lane.queue_of("model", 1, CONFIG).start(request)
            await until(lambda: ticket_count(first.server))
            await first.candidacy.close()
            rest = [each for each in all_of_them if each is not first]
            second = await settled(rest)
            assert second.candidacy.epoch > epoch
            assert user.router.back == [request]

    run(main)


def test_who_gives_up_uses_the_next_holder_and_never_holds_again(run):
    async def main():
        name = unused_name()
        async with candidates(*(Candidate(name) for _ in range(2))) as both:
            first = await settled(both)
            other = next(each for each in both if each is not first)
            first.candidacy.give_up()
            with pytest.raises(ConnectionRefusedError):
                connected(name)
            assert not first.candidacy.is_holder
            assert await settled(both) is other
            await until(lambda: first.heard == ["holder", "connected"])
            await other.candidacy.close()
            await until(lambda: first.heard == ["holder", "connected", "lost"])
            with listening(name) as successor:
                await called(successor)
            assert not first.candidacy.is_holder

    run(main)


def found_port(ports):
    """Return the way to a port that is found already, as by one who held until just now."""
    port = HolderPort(lambda: ports.listen("127.0.0.1", 1), lambda: 0.0)
    assert port.find()
    return port


def test_who_uses_another_holder_keeps_no_port(run):
    async def main():
        name, ports = unused_name(), free_ports(1)
        async with candidates(Candidate(name)) as (holder,):
            await until(lambda: holder.heard)
            async with candidates(Candidate(name, port=found_port(ports))) as (user,):
                await until(lambda: user.heard == ["connected"])
                ports.listen("127.0.0.1", 1).close()

    run(main)


def test_who_leaves_keeps_no_port(run):
    async def main():
        name, ports = unused_name(), free_ports(1)
        with listening(name):
            async with candidates(Candidate(name, port=found_port(ports))):
                await tried()
        ports.listen("127.0.0.1", 1).close()

    run(main)


def test_a_client_that_gave_up_never_holds(run):
    async def main():
        name = unused_name()
        async with candidates(*(Candidate(name) for _ in range(2))) as both:
            first = await settled(both)
            other = next(each for each in both if each is not first)
            other.candidacy.give_up()
            await first.candidacy.close()
            await until(lambda: other.heard == ["connected", "lost"])
            with listening(name) as successor:
                await called(successor)
            assert not other.candidacy.is_holder

    run(main)


def test_who_finds_the_name_bound_but_nobody_listening_tries_again(run):
    async def main():
        name = unused_name()
        dying = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dying.bind(name)
        async with candidates(Candidate(name)) as (candidate,):
            await tried()
            assert not candidate.heard
            dying.close()
            await until(lambda: candidate.heard == ["holder"])

    run(main)


def test_a_holder_that_accepts_nobody_and_ends_is_succeeded(run):
    async def main():
        name = unused_name()
        stopped = listening(name)
        async with candidates(Candidate(name), Candidate(name, may_hold=False)) as (a, b):
            await called(stopped)
            assert not a.heard
            stopped.close()
            await until(lambda: a.heard == ["holder"] and b.heard == ["connected"])

    run(main)


def test_a_stranger_that_squats_on_the_name_gets_no_tickets(run):
    async def main():
        name = unused_name()

        guests = []

        def answer(_, writer):
            guests.append(writer)
            writer.write(b"HTTP/1.1 200 OK\r\n" * 9)
            writer.close()

        squatter = await asyncio.start_unix_server(answer, sock=listening(name))
        async with candidates(Candidate(name)) as (candidate,):
            await until(lambda: len(guests) == 2)
            assert not candidate.heard
            squatter.close()
            await until(lambda: candidate.heard == ["holder"])

    run(main)


@pytest.mark.slow
def test_a_stopped_holder_is_succeeded_by_whom_it_left_behind_until_that_one_is_deposed(run):
    async def main():
        name = unused_name()
        holder = await _process(name)
        try:
            limits = LaneLimits(handshake_timeout_s=0.3)
            async with candidates(Candidate(name, limits=limits, silence_s=0.2)) as (candidate,):
                await until(lambda: candidate.heard == ["connected"])
                holder.send_signal(signal.SIGSTOP)
                candidate.candidacy.lane.queue_of("model", 1, CONFIG).start(request := Request())
                await until(lambda: candidate.router.back == [request])
                await until(lambda: candidate.heard == ["connected", "lost", "holder"])
                holder.send_signal(signal.SIGCONT)

                def is_connected():
                    # The process may need several handshakes to wake up.
                    candidate.candidacy.depose()
                    return candidate.heard[-1] == "connected"

                await until(is_connected)
        finally:
            holder.kill()
            await holder.wait()

    run(main)


@pytest.mark.slow
def test_a_killed_holder_is_succeeded_at_once(run):
    async def main():
        name = unused_name()
        holder = await _process(name)
        try:
            async with candidates(Candidate(name), Candidate(name, may_hold=False)) as (a, b):
                await until(lambda: a.heard == ["connected"] and b.heard == ["connected"])
                a.candidacy.lane.queue_of("model", 1, CONFIG).start(request := Request())
                holder.kill()
                await until(lambda: a.heard == ["connected", "lost", "holder"])
                await until(lambda: b.heard == ["connected", "lost", "connected"])
                assert a.router.back == [request]
        finally:
            if holder.returncode is None:
                holder.kill()
            await holder.wait()

    run(main)


async def _process(name):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.holder_process",
        name[1:],
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await process.stdout.readline()).startswith(b"holder ")
    return process


def test_delays_begin_with_milliseconds():
    assert election._FIRST_RETRY_S <= 0.001
    assert election._LONGEST_RETRY_S <= 0.5


def test_a_connection_accepted_while_the_holder_gives_up_is_cut_off(run):
    async def main():
        name = unused_name()
        async with candidates(Candidate(name)) as (holder,):
            await until(lambda: holder.heard)
            late = connected(name)
            with late:
                # Accepted by the listener, and no connection yet.
                (listener,) = holder.server._listeners
                listener._accept(listener._sockets[0], 1)
                holder.candidacy.give_up()
                late.setblocking(True)
                assert await asyncio.to_thread(late.recv, 1) == b""
            assert not holder.server.lanes

    run(main)


def test_lanes_of_tickets_are_as_patient_as_the_server_says():
    assert ticket_limits_of(LaneSettings(heartbeat_timeout_s=3.0)).peer_timeout_s == 3.0
    limits = ticket_limits_of(LaneSettings(heartbeat_timeout_s=3.0))
    assert (limits.max_message_bytes, limits.max_tail_bytes) == (4 << 20, 0)


def test_a_name_that_is_taken_is_no_trouble_and_any_other_failure_is_told(run, caplog, monkeypatch):
    async def main():
        name = unused_name()
        with listening(name):
            async with candidates(Candidate(name)) as (candidate,):
                await asyncio.sleep(0)
                assert not candidate.candidacy.is_holder
        assert "cannot hold the queues" not in caplog.text
        async with candidates(Candidate("x" * 200)) as (candidate,):
            await asyncio.sleep(0)
            assert not candidate.candidacy.is_holder
        assert "cannot hold the queues of this node" in caplog.text

    run(main)
