# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who decides what an instance executes, as one router knows it: the one table of it. Pure.

An instance says who its holder is to all that have a lane to it. A router that holds the queues of
the instance's node asks to adopt it besides. It hears of its own adoption as others do, before it
has the answer. An instance that has left the routing table goes on with its sequences.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class AdoptionState(Enum):
    """Who decides what an instance executes."""

    # Nobody knows: no lane is open.
    UNREACHED = auto()
    # The instance itself, which no holder has adopted.
    ALONE = auto()
    # The same, until it takes note that this process has asked to adopt it.
    ASKED = auto()
    # Another process, the holder of its node; or nobody, between one that is gone and the next.
    HELD = auto()
    # This process, once it has answered; nobody else any more.
    CLAIMED = auto()
    # This process.
    ADOPTED = auto()
    # This process, for the sequences that run there: it has left the routing table.
    RETIRED = auto()
    # Nobody any more: it has left the table, and has done all that it had to for the queue here.
    PARTED = auto()


class AdoptionEvent(Enum):
    """What changes who decides."""

    CONNECTED = auto()
    LOST = auto()
    # It says who its holder is, or that it has none at present.
    TOLD = auto()
    ASK = auto()
    ANSWERED = auto()
    # This process holds the queue no more, or has another one in its place.
    LET_GO = auto()
    LEFT_TABLE = auto()
    BACK_IN_TABLE = auto()
    NOTHING_LEFT = auto()


_S: Final = AdoptionState
_E: Final = AdoptionEvent

TRANSITIONS: Final[Mapping[AdoptionState, Mapping[AdoptionEvent, AdoptionState]]] = {
    _S.UNREACHED: {_E.CONNECTED: _S.ALONE},
    _S.ALONE: {
        _E.TOLD: _S.HELD,
        _E.ASK: _S.ASKED,
        _E.LOST: _S.UNREACHED,
    },
    _S.ASKED: {
        _E.TOLD: _S.CLAIMED,
        _E.LET_GO: _S.ALONE,
        _E.LOST: _S.UNREACHED,
    },
    _S.HELD: {
        _E.TOLD: _S.HELD,
        _E.ASK: _S.CLAIMED,
        _E.LOST: _S.UNREACHED,
    },
    _S.CLAIMED: {
        _E.TOLD: _S.CLAIMED,
        _E.ANSWERED: _S.ADOPTED,
        _E.LET_GO: _S.HELD,
        _E.LOST: _S.UNREACHED,
    },
    _S.ADOPTED: {
        _E.LET_GO: _S.HELD,
        _E.LEFT_TABLE: _S.RETIRED,
        _E.LOST: _S.UNREACHED,
    },
    _S.RETIRED: {
        _E.LET_GO: _S.HELD,
        _E.BACK_IN_TABLE: _S.ADOPTED,
        _E.NOTHING_LEFT: _S.PARTED,
        _E.LOST: _S.UNREACHED,
    },
    _S.PARTED: {
        _E.LET_GO: _S.HELD,
        _E.BACK_IN_TABLE: _S.HELD,
        _E.LOST: _S.UNREACHED,
    },
}

# Nobody has asked them for this process, which may hold the queue of their node.
FREE: Final = frozenset({_S.ALONE, _S.HELD})
# They work for this process, are to, or have done so.
OURS: Final = frozenset({_S.ASKED, _S.CLAIMED, _S.ADOPTED, _S.RETIRED, _S.PARTED})
