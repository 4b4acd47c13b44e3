# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of a load tell each other: msgpack, each message after its length.

A process that sends is asked, and answers every question with one message.
"""

from array import array

import msgspec

from manta_tools.perf.driving import Status, Taken
from manta_tools.perf.measuring.histogram import LatencyHistogram
from manta_tools.perf.measuring.windows import COUNTS, HISTOGRAMS, Window
from manta_tools.perf.options.table import PerfOptions

LENGTH_BYTES = 4


class Setup(msgspec.Struct, tag=True):
    """Connect, and prepare the data."""

    options: PerfOptions


class Make(msgspec.Struct, tag=True):
    """Prepare this part of a level's load."""

    level: float
    limit: int
    index: int
    count: int


class Start(msgspec.Struct, tag=True):
    """Begin to send, at this instant of the monotonic clock."""

    at_ns: int


class Stop(msgspec.Struct, tag=True):
    """Send nothing more."""


class AskStatus(msgspec.Struct, tag=True):
    """Say how the load stands."""


class AskSpan(msgspec.Struct, tag=True):
    """Say from when to when requests ended that nobody has taken."""


class AskRecent(msgspec.Struct, tag=True):
    """Say what the latencies of the last requests were."""

    count: int


class Take(msgspec.Struct, tag=True):
    """Say what ended from one instant to another."""

    start_ns: int
    end_ns: int


Question = Setup | Make | Start | Stop | AskStatus | AskSpan | AskRecent | Take


class Done(msgspec.Struct, tag=True):
    """It is done; answers Setup, Make, Start and Stop."""


class Failed(msgspec.Struct, tag=True):
    """It cannot be done."""

    message: str


class Standing(msgspec.Struct, tag=True):
    """Answers AskStatus."""

    status: Status


class Span(msgspec.Struct, tag=True):
    """Answers AskSpan."""

    span: tuple[int, int] | None


class Recent(msgspec.Struct, tag=True):
    """Answers AskRecent."""

    latencies_ns: list[int]


class PackedHistogram(msgspec.Struct):
    """A histogram; the sum of squares has more digits than a number of msgpack."""

    count: int
    sum_ns: int
    sum_of_squares: str
    buckets: bytes


class PackedWindow(msgspec.Struct, tag=True):
    """Answers Take: a window, its counts, histograms and order."""

    start_ns: int
    end_ns: int
    batch_size: int
    counts: dict[str, int]
    histograms: dict[str, PackedHistogram]
    in_order: bytes
    ended: int
    first_error: str


Answer = Done | Failed | Standing | Span | Recent | PackedWindow

_QUESTIONS = msgspec.msgpack.Decoder(Question)
_ANSWERS = msgspec.msgpack.Decoder(Answer)


def framed(message: Question | Answer) -> bytes:
    """Return a message after its length."""
    raw = msgspec.msgpack.encode(message)
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def read_question(raw: bytes) -> Question:
    """Read a question."""
    question: Question = _QUESTIONS.decode(raw)
    return question


def read_answer(raw: bytes) -> Answer:
    """Read an answer."""
    answer: Answer = _ANSWERS.decode(raw)
    return answer


def packed(taken: Taken) -> PackedWindow:
    """Return what was taken, without its records."""
    window = taken.window
    return PackedWindow(
        window.start_ns,
        window.end_ns,
        window.batch_size,
        {name: getattr(window, name) for name in COUNTS},
        {name: _packed(getattr(window, name)) for name in HISTOGRAMS},
        window.in_order.tobytes(),
        taken.ended,
        taken.first_error,
    )


def unpacked(message: PackedWindow) -> Taken:
    """Return what was packed."""
    window = Window(message.start_ns, message.end_ns, message.batch_size)
    for name, count in message.counts.items():
        setattr(window, name, count)
    for name, histogram in message.histograms.items():
        setattr(window, name, _unpacked(histogram))
    window.in_order = array("q", message.in_order)
    return Taken(window, message.ended, message.first_error)


def _packed(histogram: LatencyHistogram) -> PackedHistogram:
    return PackedHistogram(
        histogram.count,
        histogram.sum_ns,
        str(histogram.sum_of_squares),
        histogram.buckets.encode() if histogram.count else b"",
    )


def _unpacked(message: PackedHistogram) -> LatencyHistogram:
    histogram = LatencyHistogram()
    if message.count:
        histogram.count, histogram.sum_ns = message.count, message.sum_ns
        histogram.sum_of_squares = int(message.sum_of_squares)
        histogram.buckets.decode_and_add(message.buckets)
    return histogram
