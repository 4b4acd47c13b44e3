# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who finds no port for other nodes holds only where nobody else of its node does."""

import socket

import pytest

from backends.api.errors import UnavailableError
from deployments.pool_queue.holder_port import OTHERS_FIRST_S, HolderPort
from deployments.settings.port_range import ANY_PORT


class World:
    """A clock that the test turns, and ports, of which there may be none.

    Attributes:
        error: Why there are none; None when there are.
        port: The port of a process.
    """

    def __init__(self) -> None:
        self.now_s = 7.0
        self.error: Exception | None = UnavailableError("no port is free for lanes")
        self.port = HolderPort(self._listen, lambda: self.now_s)

    def _listen(self) -> socket.socket:
        if self.error is not None:
            raise self.error
        return ANY_PORT.listen("127.0.0.1", 1)


def test_who_has_a_port_may_hold_at_once() -> None:
    world = World()
    world.error = None
    assert world.port.may_hold()
    sock = world.port.take()
    assert sock is not None
    sock.close()


@pytest.mark.parametrize("error", [UnavailableError("none"), OSError("cannot assign address")])
def test_who_has_none_leaves_it_to_others_for_a_while(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.error = error
    assert not world.port.may_hold()
    world.now_s += OTHERS_FIRST_S * 0.9
    assert not world.port.may_hold()
    world.now_s += OTHERS_FIRST_S * 0.2
    assert world.port.may_hold()
    assert world.port.take() is None
    # Also the next time.
    assert not world.port.may_hold()
    (said,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert str(error) in said
    assert "--lane-port-range" in said


def test_while_another_holds_no_time_passes() -> None:
    world = World()
    assert not world.port.may_hold()
    world.now_s += OTHERS_FIRST_S
    world.port.let_go()
    assert not world.port.may_hold()


def test_a_port_that_is_not_taken_is_given_back() -> None:
    world = World()
    world.error = None
    assert world.port.find()
    world.port.let_go()
    world.error = UnavailableError("none")
    assert not world.port.find()
