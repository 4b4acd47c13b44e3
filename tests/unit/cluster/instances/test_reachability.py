# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import socket

import pytest

from cluster.instances.host import Knock
from cluster.instances.reachability import knock

# Longer than the kernel of this machine needs, however busy that is.
PATIENCE_S = 30.0


async def test_a_process_that_accepts_nothing_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert await knock(listening.getsockname(), PATIENCE_S) is Knock.TAKEN


async def test_a_process_that_is_gone_is_not_there_though_its_node_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
    assert await knock(address, PATIENCE_S) is Knock.REFUSED


async def test_a_node_whose_kernel_says_nothing_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        # Linux drops what comes when the backlog is full, as a network does that is cut.
        held = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
            held.append(sock)
        assert await knock(full.getsockname(), 0.2) is Knock.SILENT
        for sock in held:
            sock.close()


@pytest.mark.parametrize("address", [("", 0), ("10.0.0.1", 0)])
async def test_nobody_is_not_cut_off(address: tuple[str, int]) -> None:
    assert await knock(address, PATIENCE_S) is Knock.REFUSED
