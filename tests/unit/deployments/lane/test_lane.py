# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests on lanes, and their answers."""

import asyncio
import threading

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    Phase,
    RequestCancelledError,
    UnavailableError,
    UnsupportedError,
)
from backends.api.request import InferenceResponse, TraceContext
from deployments.lane.messages import LaneLimits
from deployments.tracing.record import TraceReport
from tests.support.lane_rig import (
    Handler,
    Rig,
    Sink,
    echo,
    inflight_count,
    request_of,
    response_of,
    until,
)

LARGE = 300_000


def test_a_request_is_answered(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sink = Sink()
            request = request_of(64, 64, id="seven", parameters={"a": 1, "b": "c", "d": 0.5})
            lane.submit(request, sink)
            assert lane.outstanding == 1
            await sink.ended
            assert lane.outstanding == 0
            (response,) = sink.responses
            assert response.id == "seven"
            assert [bytes(t.data) for t in response.outputs] == [b"x" * 64] * 2
            lane.close()
            await rig.all_gone()

    run(main)


class TracedSink(Sink):
    """Notes the report too, and that it came before the end."""

    report = None

    def traced(self, report):
        assert not self.ended.done()
        self.report = report


@pytest.mark.parametrize("end", ["response", "empty", "error"])
def test_the_report_of_a_traced_request_comes_before_its_end(run, end):
    activities = [("QUEUE_START", 1), ("COMPUTE_END", 2**62)]

    def answer(request):
        assert request.request.trace == TraceContext(7, 3, True, "{}")
        request.traced(activities)
        if end == "response":
            echo(request)
        elif end == "empty":
            request.respond(response_of(1), final=False)
            request.respond(None, final=True)
        else:
            request.fail(InternalError("no"))

    async def main():
        async with Rig(Handler(answer)) as rig:
            lane = await rig.connect()
            sink, deaf = TracedSink(), Sink()
            for each in (sink, deaf):
                lane.submit(request_of(64, trace=TraceContext(7, 3, True, "{}")), each)
            await sink.ended
            await deaf.ended
            assert sink.report == TraceReport(activities)
            lane.close()
            await rig.all_gone()

    run(main)


def test_requests_of_one_tick_arrive_in_one_read(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(20)]
            for sink in sinks:
                lane.submit(request_of(64), sink)
            await asyncio.gather(*(sink.ended for sink in sinks))
            assert rig.handler.batches == [20]

    run(main)


def test_a_stream_of_responses_keeps_its_order_and_ends_once(run):
    def answer(request):
        for n in range(5):
            request.respond(InferenceResponse("model", str(n)), final=False)
        request.respond(None, final=True)

    async def main():
        async with Rig(Handler(answer)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            assert [r and r.model_version for r in sink.responses] == [*"01234", None]

    run(main)


def test_a_request_may_be_answered_further_after_an_error(run):
    def answer(request):
        request.fail(UnsupportedError("not this one"), final=False)
        request.respond(response_of(1), final=False)
        request.respond(None, final=True)

    async def main():
        async with Rig(Handler(answer)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            assert isinstance(sink.error, UnsupportedError)
            assert [r is None for r in sink.responses] == [False, True]
            assert lane.outstanding == 0

    run(main)


def test_errors_keep_code_message_and_phase(run):
    async def main():
        error = UnsupportedError("no such thing", Phase.ENQUEUE)
        async with Rig(Handler(lambda r: r.fail(error))) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            assert isinstance(sink.error, UnsupportedError)
            assert sink.error.message == "no such thing"
            assert sink.error.phase is Phase.ENQUEUE

    run(main)


def test_a_second_terminal_answer_raises(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await until(lambda: rig.handler.requests)
            (request,) = rig.handler.requests
            request.respond(response_of(), final=True)
            assert request.is_finished
            with pytest.raises(RuntimeError):
                request.respond(response_of(), final=True)
            with pytest.raises(RuntimeError):
                request.fail(InternalError("late"))
            await sink.ended

    run(main)


def test_a_cancel_reaches_the_instance_whose_answer_is_the_outcome(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            inflight = lane.submit(request_of(4), sink)
            await until(lambda: rig.handler.requests)
            inflight.cancel()
            inflight.cancel()
            await until(lambda: rig.handler.cancels)
            (request,) = rig.handler.requests
            assert rig.handler.cancels == [request]
            assert request.is_cancelled
            assert not sink.ended.done()
            request.fail(RequestCancelledError("cancelled"))
            await sink.ended
            assert isinstance(sink.error, RequestCancelledError)
            inflight.cancel()

    run(main)


def test_a_model_waits_until_the_caller_takes_more_than_its_window(run):
    sent: list[int] = []

    def stream(request):
        for number in range(10):
            request.await_credit()
            sent.append(number)

    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            inflight = lane.submit(request_of(4, window=2), Sink())
            await until(lambda: rig.handler.requests)
            model = threading.Thread(target=stream, args=rig.handler.requests)
            model.start()
            await until(lambda: len(sent) == 2)
            inflight.credit()
            await until(lambda: len(sent) == 3)
            assert model.is_alive()
            inflight.cancel()
            await until(lambda: not model.is_alive())
            assert len(sent) == 10
            rig.handler.requests[0].fail(RequestCancelledError(""))

    run(main)


def test_a_model_that_waits_goes_on_when_its_caller_is_lost(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            lane.submit(request_of(4, window=1), Sink())
            await until(lambda: rig.handler.requests)
            (request,) = rig.handler.requests
            request.await_credit()
            model = threading.Thread(target=request.await_credit)
            model.start()
            lane.close()
            await until(lambda: not model.is_alive())

    run(main)


def test_a_cancelled_stream_carries_nothing_but_its_end(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            inflight = lane.submit(request_of(4), sink)
            await until(lambda: rig.handler.requests)
            (request,) = rig.handler.requests
            request.respond(response_of(), final=False)
            inflight.cancel()
            await until(lambda: rig.handler.cancels)
            request.respond(response_of(), final=False)
            request.fail(InternalError("one of them"), final=False)
            request.respond(None, final=True)
            await sink.ended
            assert len([response for response in sink.responses if response is not None]) == 1
            assert inflight_count(rig.server) == 0

    run(main)


def test_a_cancel_in_the_same_read_follows_its_request(run):
    class Ordered(Handler):
        def cancelled(self, request):
            assert request in self.requests
            super().cancelled(request)
            request.respond(response_of(), final=True)

    async def main():
        async with Rig(Ordered()) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink).cancel()
            await sink.ended
            assert len(sink.responses) == 1

    run(main)


def test_a_sink_that_raises_does_not_harm_the_lane(run, caplog):
    class Raising(Sink):
        def respond(self, response, *, final):
            super().respond(response, final=final)
            raise KeyError("sink")

    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            bad, good = Raising(), Sink()
            lane.submit(request_of(4), bad)
            lane.submit(request_of(4), good)
            await good.ended
            assert lane.is_open
            assert lane.outstanding == 0

    run(main)
    assert "a sink raised" in caplog.text


def test_a_handler_that_raises_fails_the_requests_of_the_read(run, caplog):
    def answer(_):
        raise KeyError("handler")

    async def main():
        async with Rig(Handler(answer)) as rig:
            lane = await rig.connect()
            sinks = [Sink(), Sink()]
            for sink in sinks:
                lane.submit(request_of(4), sink)
            await asyncio.gather(*(sink.ended for sink in sinks))
            assert all(isinstance(sink.error, InternalError) for sink in sinks)
            assert inflight_count(rig.server) == 0

    run(main)
    assert "the handler raised" in caplog.text


@pytest.mark.parametrize(
    "request_fields",
    [{"parameters": {"big": 2**70}}, {"parameters": {"text": "\udc80"}}, {"correlation_id": 2**64}],
    ids=["int", "surrogate", "correlation_id"],
)
@pytest.mark.parametrize("size", [4, LARGE])
def test_a_request_that_cannot_be_encoded_fails_alone(run, request_fields, size):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            bad, good = Sink(), Sink()
            lane.submit(request_of(size, **request_fields), bad)
            lane.submit(request_of(size), good)
            assert not bad.ended.done()
            await asyncio.gather(bad.ended, good.ended)
            assert isinstance(bad.error, InvalidArgumentError)
            assert "'model'" in bad.error.message
            assert lane.outstanding == 0
            del bad, good
            await until(lambda: not rig.client_slabs.used_blocks)

    run(main)


def test_a_response_that_cannot_be_encoded_is_an_internal_error(run):
    def answer(request):
        response = response_of(LARGE)
        response.parameters["big"] = 2**70
        request.respond(response, final=True)

    async def main():
        async with Rig(Handler(answer)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            assert isinstance(sink.error, InternalError)
            assert rig.server_slabs.used_blocks == 0

    run(main)


@pytest.mark.parametrize("same_node", [True, False])
def test_a_request_beyond_the_lanes_limits_fails_alone(run, same_node):
    limits = LaneLimits(max_message_bytes=100_000, max_tail_bytes=200_000)

    async def main():
        async with Rig(Handler(echo), limits=limits, same_node=same_node) as rig:
            lane = await rig.connect()
            sinks = [Sink(), Sink(), Sink()]
            lane.submit(request_of(60_000, 60_000), sinks[0])
            lane.submit(request_of(*[150_000] * 2), sinks[1])
            lane.submit(request_of(60_000, 150_000), sinks[2])
            await asyncio.gather(*(sink.ended for sink in sinks))
            assert isinstance(sinks[0].error, InvalidArgumentError)
            assert "at most 100000 and 200000" in sinks[0].error.message
            assert isinstance(sinks[1].error, InvalidArgumentError) is not same_node
            assert sinks[2].error is None

    run(main)


def test_requests_over_the_inflight_limit_are_unavailable(run):
    async def main():
        async with Rig(Handler(), limits=LaneLimits(max_inflight_count=2)) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(3)]
            for sink in sinks:
                lane.submit(request_of(4), sink)
            await sinks[2].ended
            assert isinstance(sinks[2].error, UnavailableError)
            for request in rig.handler.requests:
                request.respond(response_of(), final=True)
            await asyncio.gather(*(sink.ended for sink in sinks))

    run(main)
