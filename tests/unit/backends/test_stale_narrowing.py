# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the scan for stale narrowing finds, and what it leaves alone."""

import textwrap

import pytest

from tests.support.stale_narrowing import stale_reads

FOUND = {
    "set to None, then read after a call": """
        self.timer = None
        self.send()
        return self.timer
    """,
    "set to None, a call in a loop": """
        self.timer = None
        for pool in self.pools:
            self.send(pool)
        if self.pools and self.timer is None:
            self.timer = self.later()
    """,
    "set to None, then awaited": """
        self.lane = None
        await self.wait
        use(self.lane)
    """,
    "tested for None, then read after a call": """
        if self.timer is None:
            self.send()
            self.keep = self.timer
    """,
    "tested for None at a loop's head": """
        while self.lane is None:
            self.turn()
            log(self.lane)
    """,
    "found None by an early return": """
        if link.lane is not None:
            return
        self.connect()
        print(link.lane)
    """,
    "found None beside something else": """
        if self.lane is None and self.is_open:
            self.connect()
            return self.lane
    """,
    "None in a conditional expression": """
        return self.take(self.open(), self.lane) if self.lane is None else 0
    """,
    "None in both branches": """
        if self.is_open:
            self.lane = None
        else:
            self.lane = None
            self.close()
        return self.lane
    """,
    "asserted to be None": """
        assert self.lane is None
        self.connect()
        return self.lane
    """,
    "in a handler": """
        try:
            self.lane = None
            self.connect()
        finally:
            print(self.lane)
    """,
    "a global that is set to None": """
        global current
        current = None
        begin()
        return current
    """,
    "of a subclass by isinstance, then read after a call": """
        if isinstance(self.sink, Traced):
            self.next()
            self.sink.respond()
    """,
    "not None, then compared with None once more": """
        if self.lane is None:
            return 0
        self.send()
        return 1 if self.lane is None else 2
    """,
    "made here, then compared with None": """
        self.lane = Lane()
        self.send()
        return self.lane is None
    """,
    "true, then compared with None": """
        if self.lane:
            self.send()
            return self.lane is not None
    """,
}

LEFT = {
    "read before the call": """
        self.timer = None
        print(1 if self.timer is None else 2)
    """,
    "set again after the call": """
        self.timer = None
        self.send()
        self.timer = self.later()
        return self.timer
    """,
    "asked in a function of its own": """
        self.timer = None
        self.send()
        self.arm()
    """,
    "None in one branch alone": """
        if self.is_open:
            self.lane = None
        self.send()
        return self.lane
    """,
    "what it was reached through is another": """
        self.pool.lane = None
        self.pool = self.next()
        return self.pool.lane
    """,
    "not None, then used": """
        if self.lane is not None:
            self.send()
            self.lane.close()
    """,
    "of a class, and nothing is called that changes anything": """
        if isinstance(self.sink, Traced):
            if isinstance(event, Received) and len(self.items):
                self.sink.respond()
    """,
    "of a loop that sets it": """
        while self.lane is None:
            self.lane = self.connect()
        return self.lane
    """,
    "a local variable": """
        lane = None
        self.connect()
        return lane
    """,
    "a variable that a function of its own has": """
        self.lane = None
        def later():
            return self.lane
        self.connect(lambda: self.lane)
    """,
}


def function(body: str) -> str:
    return "async def f(self, link, event):\n" + textwrap.indent(textwrap.dedent(body), "    ")


@pytest.mark.parametrize("name", FOUND)
def test_what_is_read_as_it_was_before_a_call_is_found(name: str) -> None:
    assert len(stale_reads(function(FOUND[name]))) == 1


@pytest.mark.parametrize("name", LEFT)
def test_what_a_call_cannot_have_made_stale_is_left_alone(name: str) -> None:
    assert stale_reads(function(LEFT[name])) == []
