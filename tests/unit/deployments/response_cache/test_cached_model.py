# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A cached model between a router and its instances."""

import numpy as np

from backends.api.errors import InternalError, RequestCancelledError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.response_cache.cached_model import CachedModel
from deployments.response_cache.local import LocalCache


class Sink:
    def __init__(self):
        self.responses, self.error = [], None

    def respond(self, response, *, final):
        self.responses.append((response, final))

    def fail(self, error, *, final=True):
        assert final
        self.error = error


class Model:
    """What the router would send to; answers when told."""

    def __init__(self):
        self.sinks = []
        self.cancelled = 0

    def __call__(self, request, sink):
        self.sinks.append(sink)
        return self

    def cancel(self):
        self.cancelled += 1


class SlowStore:
    """Answers lookups when told."""

    def __init__(self):
        self.waiting = []
        self.entries = {}

    def find(self, key, found):
        self.waiting.append((key, found))

    def insert(self, key, entry):
        self.entries[key] = entry

    def gauges(self):
        return {}

    def answer(self):
        key, found = self.waiting.pop()
        found(self.entries.get(key))


def request(request_id="", value=1, pins=None) -> InferenceRequest:
    inputs = [tensor_from_numpy("X", np.array([value], np.int32))]
    return InferenceRequest("m", id=request_id, inputs=inputs, pins=pins)


def response(request_id="first", value=7) -> InferenceResponse:
    outputs = [tensor_from_numpy("Y", np.array([value], np.int32))]
    return InferenceResponse("m", "1", request_id, outputs, {"seen": True})


def cached(store=None) -> CachedModel:
    return CachedModel(store or LocalCache(1 << 20, lambda: 0), lambda: 0)


def ask(subject, model, **fields):
    sink = Sink()
    return sink, subject.start(request(**fields), sink, model)


def test_the_second_same_request_is_answered_without_the_model():
    subject, model = cached(), Model()
    ask(subject, model, request_id="first")
    model.sinks[0].respond(response(), final=True)
    sink, _ = ask(subject, model, request_id="second")
    (answer, final) = sink.responses[0]
    assert final
    assert (answer.id, answer.parameters) == ("second", {"seen": True})
    assert bytes(answer.outputs[0].data) == np.array([7], np.int32).tobytes()
    assert len(model.sinks) == 1


def test_a_hit_costs_its_tenant_no_execution():
    subject, model = cached(), Model()
    ask(subject, model)
    answer = response()
    answer.share_ns, answer.queue_ns = 5, 7
    model.sinks[0].respond(answer, final=True)
    sink, _ = ask(subject, model)
    (hit, _) = sink.responses[0]
    assert (hit.share_ns, hit.queue_ns) == (0, 0)


def test_hits_and_misses_are_counted_and_a_hit_is_no_inference():
    subject, model = cached(), Model()
    ask(subject, model)
    model.sinks[0].respond(response(), final=True)
    ask(subject, model)
    totals = subject.snapshot()
    assert (totals.cache_hit_count, totals.cache_miss_count) == (1, 1)
    assert (totals.success_count, totals.inference_count, totals.execution_count) == (1, 0, 0)


def test_an_error_is_passed_on_and_not_kept():
    subject, model = cached(), Model()
    sink, _ = ask(subject, model)
    model.sinks[0].fail(InternalError("no"))
    assert isinstance(sink.error, InternalError)
    ask(subject, model)
    assert len(model.sinks) == 2


def test_a_model_loaded_anew_is_asked_again():
    subject, model = cached(), Model()
    ask(subject, model)
    model.sinks[0].respond(response(), final=True)
    subject.identity = b"new"
    ask(subject, model)
    assert len(model.sinks) == 2


def test_an_entry_that_cannot_be_read_is_a_miss():
    store, model = SlowStore(), Model()
    subject = cached(store)
    ask(subject, model)
    store.entries[store.waiting[0][0]] = b"\xc1 from elsewhere"
    store.answer()
    assert len(model.sinks) == 1


def test_a_request_cancelled_while_it_is_looked_up_ends_once_and_reaches_no_model():
    store, model = SlowStore(), Model()
    sink, inflight = ask(cached(store), model)
    inflight.cancel()
    inflight.cancel()
    assert isinstance(sink.error, RequestCancelledError)
    store.answer()
    assert model.sinks == sink.responses == []


def test_a_request_cancelled_later_is_cancelled_at_the_model():
    subject, model = cached(), Model()
    _, inflight = ask(subject, model)
    inflight.cancel()
    assert model.cancelled == 1


def test_a_request_that_could_not_be_sent_on_fails_once() -> None:
    def refuse(request, sink):
        raise InternalError("no instance")

    class OnceSink(Sink):
        def fail(self, error, *, final=True):
            assert self.error is None
            super().fail(error, final=final)

    store, sink = SlowStore(), OnceSink()
    model = CachedModel(store, lambda: 0)
    inflight = model.start(request(), sink, refuse)
    store.answer()
    inflight.cancel()
    assert isinstance(sink.error, InternalError)


def test_each_arm_of_a_rollout_that_a_cached_model_calls_has_its_own_answers():
    subject, model = cached(), Model()
    for version in (1, 2):
        ask(subject, model, pins={"callee": version})
        model.sinks[-1].respond(response(value=version), final=True)
    assert len(model.sinks) == 2
    for version in (1, 2):
        sink, _ = ask(subject, model, pins={"callee": version})
        (answer, _) = sink.responses[0]
        assert bytes(answer.outputs[0].data) == np.array([version], np.int32).tobytes()
    assert len(model.sinks) == 2
