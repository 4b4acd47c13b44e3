# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims and arbiters over real sockets; every reactor is turned by the test, in its order."""

import os
import secrets
import subprocess
import sys
import threading

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.rate_limiter.arbiter import (
    ClaimPhase,
    Limit,
    Resource,
    ResourceDemand,
)
from deployments.rate_limiter.claim import ResourceClaim
from deployments.rate_limiter.messages import packet_socket
from deployments.rate_limiter.roster import Roster, entry_of
from deployments.reactor.reactor import Reactor
from tests.support.arbiters import Arbiters

ONE = ResourceDemand({Resource(0, "R"): 1})


class Instance:
    """A claim and the reactor it is read on."""

    def __init__(self, name: str, path: str, demand: ResourceDemand = ONE) -> None:
        self.reactor = Reactor()
        self.claim = ResourceClaim(name, demand, path, self.reactor)
        self.wakes = 0
        self.claim.join(10)
        self.claim.serve(self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def turn_until_held(self) -> None:
        while not self.claim.is_held:
            self.reactor.turn(10)

    def close(self) -> None:
        self.claim.close()
        self.reactor.close()


@pytest.fixture
def node(tmp_path):
    arbiters = Arbiters(tmp_path)
    made = []

    def instance(name: str, demand: ResourceDemand = ONE) -> Instance:
        made.append(Instance(name, arbiters.path, demand))
        return made[-1]

    arbiters.instance = instance
    yield arbiters
    for each in made:
        each.close()
    arbiters.end()


def test_the_resource_goes_from_one_instance_to_the_other(node):
    a, b = node.instance("a"), node.instance("b")
    a.claim.ask()
    a.turn_until_held()
    b.claim.ask()
    node.wait_until_asked("b")
    assert not b.claim.is_held
    a.claim.done(ask_again=True)
    b.turn_until_held()
    assert not a.claim.is_held
    b.claim.decline()
    a.turn_until_held()
    assert (a.wakes, b.wakes) == (2, 1)


def test_an_instance_that_closes_leaves_what_it_held(node):
    a, b = node.instance("a"), node.instance("b")
    a.claim.ask()
    a.turn_until_held()
    b.claim.ask()
    a.claim.close()
    b.turn_until_held()


def test_what_a_killed_process_held_is_free(node):
    script = (
        "import sys; from deployments.reactor.reactor import Reactor\n"
        "from tests.unit.deployments.rate_limiter.test_claims import Instance\n"
        "held = Instance('dead', sys.argv[1].replace('@', chr(0)))\n"
        "held.claim.ask(); held.turn_until_held(); print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, node.path.replace("\0", "@")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        heir = node.instance("heir")
        heir.claim.ask()
        process.kill()
        heir.turn_until_held()


def test_an_instance_that_can_never_execute_is_refused(tmp_path):
    arbiters = Arbiters(tmp_path, (Limit("R", 1),))
    claim = ResourceClaim("a", ResourceDemand({Resource(0, "R"): 2}), arbiters.path, Reactor())
    with pytest.raises(InvalidArgumentError, match='Resource count for "R" is limited to 1'):
        claim.join(10)
    arbiters.end()


def test_without_an_arbiter_joining_fails():
    claim = ResourceClaim("a", ONE, f"\0manta-test/{secrets.token_hex(8)}", Reactor())
    with pytest.raises(UnavailableError, match="rate limiter of this node has not answered"):
        claim.join(0)


def test_a_paused_execution_lends_its_resources_and_gets_them_back(node):
    caller, called = node.instance("caller"), node.instance("called")
    caller.claim.ask()
    caller.turn_until_held()
    called.claim.ask()
    node.wait_until_asked("called")

    def follow() -> None:
        node.wait_for(lambda: node.arbiter.phase("caller") is ClaimPhase.RESUMING)
        called.claim.done(ask_again=True)
        caller.turn_until_held()

    follower = threading.Thread(target=follow)
    with caller.claim.paused():
        assert not caller.claim.is_held
        called.turn_until_held()
        follower.start()
    follower.join()
    assert caller.claim.is_held
    assert not called.claim.is_held
    caller.claim.done(ask_again=False)
    called.turn_until_held()


def test_threads_of_a_model_do_not_give_back_what_its_execution_holds(node):
    a = node.instance("a")
    a.claim.ask()
    a.turn_until_held()
    seen = []

    def call() -> None:
        with a.claim.paused():
            seen.append(a.claim.is_held)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [True]


def test_a_new_arbiter_learns_who_holds_and_who_waits(node):
    a, b = node.instance("a"), node.instance("b")
    a.claim.ask()
    a.turn_until_held()
    b.claim.ask()
    node.end()
    node.begin()
    while not node.reactor.submit(lambda: len(node.arbiter.held)).result(10):
        a.reactor.turn(0.01)
    while not node.reactor.submit(lambda: node.server.member_count == 2).result(10):
        b.reactor.turn(0.01)
    assert not b.claim.is_held
    a.claim.done(ask_again=True)
    b.turn_until_held()
    assert not a.claim.is_held
    b.claim.done(ask_again=False)
    a.turn_until_held()


def test_a_new_arbiter_grants_nothing_before_all_that_live_have_joined(node):
    # Another process that may hold what the new arbiter does not know of.
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        a = node.instance("a")
        node.end()
        Roster(node.roster_path).add(entry_of(other.pid))
        node.begin()
        a.claim.ask()
        while not node.reactor.submit(lambda: bool(node.arbiter.totals)).result(10):
            a.reactor.turn(0.01)
        node.wait_until_asked("a")
        assert not node.arbiter.is_open
        assert not a.claim.is_held
        other.kill()
        a.turn_until_held()
        assert node.arbiter.is_open


def test_dead_processes_and_reused_numbers_are_not_waited_for(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "0"]) as process:
        dead = entry_of(process.pid)
    roster = Roster(tmp_path / "roster")
    own = entry_of(os.getpid())
    for entry in (dead, own, (own[0], own[1] - 1)):
        if entry is not None:
            roster.add(entry)
    assert Roster(tmp_path / "roster").read_living() == {own}


def test_a_roster_that_cannot_be_read_is_empty(tmp_path):
    (tmp_path / "roster").write_text('[[1, "')
    assert Roster(tmp_path / "roster").read_living() == set()
    assert Roster(tmp_path / "none").read_living() == set()


@pytest.mark.parametrize("packet", [b"hello", b"\x80", b"ask"])
def test_who_speaks_otherwise_is_dropped(node, packet):
    with packet_socket() as sock:
        sock.setblocking(True)
        sock.connect(node.path)
        sock.send(packet)
        assert sock.recv(100) == b""


def test_a_member_that_says_what_it_cannot_is_dropped_and_leaves(node):
    a = node.instance("a")
    a.claim._sock.send(b"done")
    a.claim.ask()
    a.turn_until_held()
