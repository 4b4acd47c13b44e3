# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import gc
import ssl
import threading

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
    UnavailableError,
    UnsupportedError,
)
from backends.api.request import Extent, InferenceResponse, Tensor, TraceContext
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.lane.messages import LaneLimits
from deployments.slabs.pool import SlabPool
from deployments.tracing.record import TraceReport
from tests.support.certificates import make_certificates
from tests.support.lane_rig import Handler, Rig, Sink, echo, request_of, response_of, until

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


@pytest.mark.parametrize("same_node", [True, False], ids=["uds", "tcp"])
@pytest.mark.parametrize("sizes", [(LARGE,), (10, LARGE, 0, LARGE + 7, 65536, 65535)])
def test_large_tensors_arrive_and_leave_nothing_behind(run, same_node, sizes):
    async def main():
        async with Rig(Handler(echo), same_node=same_node) as rig:
            lane = await rig.connect()
            assert lane._extents.uses_slabs is same_node
            request = request_of(*sizes)
            for _ in range(3):
                sink = Sink()
                lane.submit(request, sink)
                await sink.ended
                (response,) = sink.responses
                assert [bytes(t.data) for t in response.outputs] == [b"x" * n for n in sizes]
                assert all(t.extent is None for t in response.outputs)
                assert (rig.client_slabs.mapped_bytes > 0) is same_node
            del sink, response
            await until(lambda: not rig.client_slabs.used_blocks)
            await until(lambda: not rig.server_slabs.used_blocks)
            assert lane.is_open

    run(main)


def test_the_callers_tensors_are_not_touched(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            request = request_of(LARGE, 10)
            tensors = list(request.inputs)
            sink = Sink()
            lane.submit(request, sink)
            await sink.ended
            assert all(now is then for now, then in zip(request.inputs, tensors, strict=True))
            assert request.inputs[0].extent is None
            assert len(request.inputs[0].data) == LARGE

    run(main)


def test_data_inside_a_slab_of_ours_is_sent_without_a_copy(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            body = rig.client_slabs.allocate(2 * LARGE + 100, align_at=100)
            body[100 : 100 + LARGE] = b"a" * LARGE
            body[100 + LARGE :] = b"b" * LARGE
            request = request_of()
            request.inputs = [
                Tensor("A", "UINT8", (LARGE,), body[100 : 100 + LARGE]),
                Tensor("B", "UINT8", (LARGE,), body[100 + LARGE :]),
            ]
            sink = Sink()
            lane.submit(request, sink)
            del body
            await until(lambda: rig.handler.requests)
            assert rig.client_slabs.used_blocks == 1
            (received,) = rig.handler.requests
            assert [bytes(t.data[:2]) for t in received.request.inputs] == [b"aa", b"bb"]
            # The requester forgets the bytes; the instance still sees them.
            request.inputs = []
            gc.collect()
            assert rig.client_slabs.used_blocks == 1
            received.request.inputs.clear()
            received.respond(response_of(4), final=True)
            await sink.ended
            await until(lambda: not rig.client_slabs.used_blocks)

    run(main)


def test_a_full_pool_falls_back_to_tails(run):
    async def main():
        async with Rig(Handler(echo), pool_bytes=65536) as rig:
            lane = await rig.connect()
            assert lane._extents.uses_slabs
            sink = Sink()
            lane.submit(request_of(LARGE, LARGE), sink)
            await sink.ended
            assert [bytes(t.data) for t in sink.responses[0].outputs] == [b"x" * LARGE] * 2

    run(main)


def test_a_peer_unmaps_the_slabs_that_are_retired(run):
    async def main():
        async with Rig(
            Handler(lambda r: r.respond(response_of(4), final=True)), pool_bytes=1 << 20
        ) as rig:
            lane = await rig.connect()
            (server_lane,) = rig.lanes
            mappings = server_lane._slab_reader._mappings
            for size, slab_id in ((100_000, 1), (500_000, 2), (100_000, 3)):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                await until(lambda: not rig.client_slabs.used_blocks)
                await until(lambda wanted=[slab_id]: list(mappings) == wanted)
                assert rig.client_slabs.mapped_bytes == 1 << 20

    run(main)


def test_slabs_that_cannot_be_mapped_any_more_cost_one_request_and_then_tails(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            (server_lane,) = rig.lanes
            # The server's view of the client's process: as if /proc were gone.
            server_lane._peer_pid = 2**30
            first, second = Sink(), Sink()
            lane.submit(request_of(LARGE), first)
            await first.ended
            assert isinstance(first.error, UnavailableError)
            lane.submit(request_of(LARGE), second)
            await second.ended
            assert bytes(second.responses[0].outputs[0].data) == b"x" * LARGE
            await until(lambda: not rig.client_slabs.used_blocks)

    run(main)


def test_answers_in_slabs_that_cannot_be_mapped_fail_their_request(run):
    async def main():
        async with Rig(Handler(lambda r: r.respond(response_of(LARGE), final=True))) as rig:
            lane = await rig.connect()
            lane._peer_pid = 2**30
            first, second = Sink(), Sink()
            lane.submit(request_of(4), first)
            await first.ended
            assert isinstance(first.error, UnavailableError)
            assert lane.outstanding == 0
            lane.submit(request_of(4), second)
            await second.ended
            assert bytes(second.responses[0].outputs[0].data) == b"y" * LARGE
            await until(lambda: not rig.server_slabs.used_blocks)

    run(main)


def test_extents_of_client_regions_pass_through_whatever_the_region_is_called(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            request = request_of(LARGE)
            extents = [Extent("tail", 5, 10), Extent("slab", 0, 2**40), Extent("region", 1, 2)]
            request.inputs += [Tensor("R", "UINT8", (10,), extent=extent) for extent in extents]
            sink = Sink()
            lane.submit(request, sink)
            await sink.ended
            outputs = sink.responses[0].outputs
            assert [t.extent for t in outputs] == [None, *extents]

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


def test_errors_keep_code_and_message(run):
    async def main():
        async with Rig(Handler(lambda r: r.fail(UnsupportedError("no such thing")))) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            assert isinstance(sink.error, UnsupportedError)
            assert sink.error.message == "no such thing"

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
            assert rig.server.inflight_count == 0

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
            assert rig.server.inflight_count == 0

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


def test_calls_are_answered(run, caplog):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            payload = bytes(range(256)) * 100
            assert await lane.call("echo", payload, 5) == payload
            with pytest.raises(InternalError, match="'nothing' failed"):
                await lane.call("nothing", b"", 5)
            rig.turning.is_paused = True
            with pytest.raises(UnavailableError, match=r"did not answer 'echo' within 0\.01 s"):
                await lane.call("echo", b"", 0.01)
            rig.turning.is_paused = False
            lane.close()
            with pytest.raises(UnavailableError, match="is closed"):
                await lane.call("echo", b"", 5)
            await rig.all_gone()

    run(main)


def test_a_call_may_be_answered_later_from_another_thread(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            waiting = asyncio.ensure_future(lane.call("later", b"", 20))
            await until(lambda: rig.handler.calls)
            assert await lane.call("echo", b"meanwhile", 20) == b"meanwhile"
            await asyncio.to_thread(rig.handler.later.set_result, b"at last")
            assert await waiting == b"at last"
            failing = asyncio.ensure_future(lane.call("later", b"", 20))
            await until(lambda: not rig.handler.later.done())
            rig.handler.later.set_exception(UnsupportedError("no"))
            with pytest.raises(UnsupportedError, match="no"):
                await failing

    run(main)


def test_a_lost_lane_fails_its_calls(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            waiting = asyncio.ensure_future(lane.call("echo", b"", 20))
            await until(lambda: lane._calls)
            lane.close()
            with pytest.raises(UnavailableError, match="broke"):
                await waiting
            rig.turning.is_paused = False
            await rig.all_gone()

    run(main)


def test_a_call_does_not_overtake_the_requests_before_it(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(3)]
            for sink in sinks:
                lane.submit(request_of(4), sink)
            await lane.call("echo", b"", 5)
            assert rig.handler.batches == [3]
            assert rig.handler.calls == [("echo", 3)]

    run(main)


def test_a_draining_server_tells_old_and_new_lanes(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            old = await rig.connect()
            assert not old.draining
            rig.server.start_draining()
            await until(lambda: old.draining)
            new = await rig.connect()
            await until(lambda: new.draining)
            sink = Sink()
            new.submit(request_of(4), sink)
            await sink.ended
            assert sink.error is None

    run(main)


def test_close_when_idle_waits_for_what_is_outstanding(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            lane.close_when_idle()
            await until(lambda: rig.handler.requests)
            assert lane.is_open
            rig.handler.requests[0].respond(response_of(), final=True)
            await sink.ended
            await until(lambda: not lane.is_open)
            assert rig.losses == [(lane, [])]

    run(main)


def test_closing_hands_over_the_orphans_once(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            request, sink = request_of(LARGE), Sink()
            lane.submit(request, sink).cancel()
            lane.close()
            lane.close()
            ((lost, (orphan,)),) = rig.losses
            assert lost is lane
            assert orphan.request is request
            assert orphan.sink is sink
            assert orphan.cancelled
            assert not orphan.has_responded
            assert lane.outstanding == 0
            late = Sink()
            lane.submit(request, late)
            await late.ended
            assert isinstance(late.error, UnavailableError)
            assert not sink.ended.done()
            await rig.all_gone()

    run(main)


def test_a_slow_reader_makes_the_client_unwritable_and_then_loses_the_lane(run):
    limits = LaneLimits(high_water_bytes=1 << 16, max_unsent_bytes=1 << 20)

    async def main():
        async with Rig(Handler(echo), client_limits=limits, same_node=False) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            sinks = []
            while lane.is_open:
                sinks.append(Sink())
                lane.submit(request_of(60_000), sinks[-1])
                await asyncio.sleep(0)
            assert not lane.is_writable
            ((_, orphans),) = rig.losses
            assert [orphan.sink for orphan in orphans] == sinks
            rig.turning.is_paused = False
            await rig.all_gone()

    run(main)


def test_a_router_that_does_not_read_loses_its_lane(run, caplog):
    limits = LaneLimits(high_water_bytes=1 << 16, max_unsent_bytes=1 << 20)

    async def main():
        async with Rig(Handler(), limits=limits, same_node=False) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await until(lambda: rig.handler.requests)
            (request,) = rig.handler.requests
            lane._transport.pause_reading()
            while not request.is_finished:
                request.respond(response_of(60_000), final=False)
                await asyncio.sleep(0)
            assert request.is_cancelled
            request.respond(response_of(), final=True)
            lane._transport.resume_reading()
            await until(lambda: rig.losses)
            assert [orphan.sink for orphan in rig.losses[0][1]] == [sink]

    run(main)
    assert "bytes unread" in caplog.text


def test_another_incarnation_is_refused(run):
    async def main():
        async with Rig(Handler(), incarnation="second") as rig:
            there = rig.endpoint
            wrong = InstanceEndpoint(there.name, "first", there.node_id, there.uds, there.tcp)
            with pytest.raises(UnavailableError, match="incarnation 'second' answers, not 'first'"):
                await rig.connect(endpoint=wrong)
            assert rig.losses == []

    run(main)


def test_nobody_listening_is_unavailable(run):
    async def main():
        slabs = SlabPool()
        endpoint = InstanceEndpoint("model/1#0", "", "node", "\0manta-nobody", ("127.0.0.1", 1))
        for same_node in (True, False):
            with pytest.raises(UnavailableError, match="no lane to instance 'model/1#0'"):
                await LaneClient.connect(
                    endpoint,
                    same_node=same_node,
                    secret=b"s" * 16,
                    slabs=slabs,
                    on_lost=lambda *_: None,
                )
        slabs.close()

    run(main)


def test_a_socket_path_in_the_file_system_is_replaced_and_removed(run, tmp_path):
    path = str(tmp_path / "lane")

    async def main():
        for _ in range(2):
            async with Rig(Handler(echo), uds=path) as rig:
                lane = await rig.connect()
                sink = Sink()
                lane.submit(request_of(LARGE), sink)
                await sink.ended
                lane.close()
            assert not (tmp_path / "lane").exists()

    run(main)


def test_received_views_outlive_the_lane(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(LARGE), sink)
            await sink.ended
            kept = sink.responses[0].outputs[0].data[5:10]
            del sink
            assert rig.server_slabs.used_blocks == 1
            lane.close()
            await until(lambda: not rig.lanes)
            assert bytes(kept) == b"xxxxx"

    run(main)


def test_lanes_between_nodes_can_be_encrypted(run, tmp_path):
    certificates = make_certificates(tmp_path)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(*certificates.server)
    ours = ssl.create_default_context(cafile=certificates.root)

    async def main():
        async with Rig(Handler(echo), same_node=False, tls=theirs) as rig:
            lane = await rig.connect(tls=ours)
            for size in (64, LARGE, 3 << 20):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                assert bytes(sink.responses[0].outputs[0].data) == b"x" * size
            lane.close()
            await rig.all_gone()

    run(main)
