# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What clients write down of each request, and the run of each fault."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

# What may become of a request.
OK: Final = "ok"
WRONG: Final = "wrong"  # an answer to something else, a wrong value, or more than one answer
ERROR: Final = "error"  # the server said what is wrong
LOST: Final = "lost"  # the connection ended in place of an answer
HUNG: Final = "hung"  # no answer for as long as the client waits
REFUSED: Final = "refused"  # the connection was never made; no request was sent

# What clients ask for.
UNARY: Final = "unary"
ENSEMBLE: Final = "ensemble"
BLS: Final = "bls"
STREAM: Final = "stream"
SEQUENCE: Final = "sequence"
SHARED: Final = "shared-memory"

# The two nodes. Clients of one have their connections to its ingresses.
HEAD: Final = "head"
FAR: Final = "far"


class Record(NamedTuple):
    """What became of a request.

    Attributes:
        client: Who asked; a client asks one after the other.
        traffic: What was asked for, such as `UNARY`.
        protocol: http or grpc.
        node: Whose ingresses were asked.
        request_id: The id that was sent with it; no two requests have the same one.
        kind: One of `OK`, `WRONG`, `ERROR`, `LOST`, `HUNG`, `REFUSED`.
        begin_s: When it was sent, by `time.monotonic`; end_s: when that was known.
        code: An error's code by the name that gRPC has for it.
        port: The client's port; 0 where it is not known.
        is_first: Whether its connection had never carried an answer.
        sequence: Correlation id; 0 for none.
        detail: What an error said, what was wrong, how the connection ended.
    """

    client: str
    traffic: str
    protocol: str
    node: str
    request_id: str
    kind: str
    begin_s: float
    end_s: float
    code: str = ""
    port: int = 0
    is_first: bool = False
    sequence: int = 0
    detail: str = ""


@dataclass
class Journal:
    """What one client has written down.

    Attributes:
        sent: Ids of the requests it has sent, in their order.
        records: What became of them; in the order of their ends.
    """

    sent: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


@dataclass
class Strike:
    """The run of a fault.

    Attributes:
        fault: Its name.
        begin_s: When it began, by `time.monotonic`; over_s: when it was over.
        node: The node that it hit, where it hit one.
        traffics: What clients ask of the model whose instance it hit.
        last_of: What clients ask of models that had no other instance: none is left to send to.
        ports: Client's ports of the connections that the process which it hit had.
        connections: gRPC connections of that process: so many gRPC clients may lose theirs.
        note: Whom it hit, in words.
        left_out: Why it could not be brought about; empty: it was.
    """

    fault: str
    begin_s: float
    over_s: float = 0.0
    node: str = ""
    traffics: frozenset[str] = frozenset()
    last_of: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    connections: int = 0
    note: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class Control:
    """A load or a change of instances that the schedule asked for.

    Attributes:
        what: In words.
        begin_s: When it was asked for; end_s: when it was answered.
        error: What was wrong; empty for nothing.
        is_cut: Whether its connection ended before there was an answer.
    """

    what: str
    begin_s: float
    end_s: float
    error: str = ""
    is_cut: bool = False
