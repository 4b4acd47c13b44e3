# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from manta_tools.perf.driving import Status, Taken
from manta_tools.perf.measuring.windows import COUNTS, HISTOGRAMS, side_by_side, summarise
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.processes import messages
from manta_tools.perf.records import Request

MS = 1_000_000
DRAWS = random.Random(7)


def ended(latency_ns, end_ns, *, error=""):
    request = Request(is_sequence_end=True)
    request.intended_ns = request.start_ns = end_ns - latency_ns
    request.end_ns, request.error = end_ns, error
    request.responses_ns = [end_ns - latency_ns // 2, end_ns]
    request.send_ns, request.receive_ns, request.is_delayed = 3, 5, True
    return request


REQUESTS = [ended(DRAWS.randrange(MS, 900 * MS), DRAWS.randrange(9000 * MS)) for _ in range(400)]


def window_of(requests):
    return summarise(requests, 0, 9000 * MS, batch_size=3, objectives=[lambda _: True])


def assert_same(found, expected):
    for name in ("start_ns", "end_ns", "batch_size", "in_order", *COUNTS):
        assert getattr(found, name) == getattr(expected, name), name
    for name in HISTOGRAMS:
        one, other = getattr(found, name), getattr(expected, name)
        assert one.count == other.count > 0
        assert (one.mean_ns, one.deviation_ns) == (other.mean_ns, other.deviation_ns)
        for percentile in (1, 50, 90, 99, 99.9):
            assert one.percentile_ns(percentile) == other.percentile_ns(percentile)


def over_the_wire(answer):
    return messages.read_answer(messages.framed(answer)[messages.LENGTH_BYTES :])


def test_a_window_is_the_same_on_the_other_side():
    taken = Taken(window_of(REQUESTS), 401, "broken")
    found = messages.unpacked(over_the_wire(messages.packed(taken)))
    assert_same(found.window, taken.window)
    assert (found.ended, found.first_error) == (401, "broken")


def test_a_window_of_nothing_is_the_same_on_the_other_side():
    taken = Taken(window_of([]), 0)
    assert messages.unpacked(over_the_wire(messages.packed(taken))).window.latencies.count == 0


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_windows_of_several_processes_are_that_of_all_their_requests(parts):
    windows = [window_of(REQUESTS[index::parts]) for index in range(parts)]
    assert_same(side_by_side(windows), window_of(REQUESTS))


def test_options_are_the_same_on_the_other_side():
    arguments = (
        "-m m --concurrency-range 1:5:2 -H a:b --shape X:3,4 -i grpc --request-parameter p:1:int"
    )
    more = ("--goodput", "request_latency:5", "--sequence-id-range", "5:9")
    options = parse_options([*arguments.split(), *more])
    raw = messages.framed(messages.Setup(options))
    assert raw[: messages.LENGTH_BYTES] == (len(raw) - messages.LENGTH_BYTES).to_bytes(4, "big")
    assert messages.read_question(raw[messages.LENGTH_BYTES :]) == messages.Setup(options)


def test_a_status_is_the_same_on_the_other_side():
    standing = messages.Standing(Status(1, 2, 3, 4, False, 5))
    assert over_the_wire(standing) == standing
