# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Answers a model's requests from the cache, and fills the cache with what the model answers.

Triton: core/src/dynamic_batch_scheduler.cc CacheLookUp, core/src/response_cache.h @73aad7c
"""

import logging
from collections.abc import Callable

import msgspec

from backends.api.errors import RequestCancelledError, TritonError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.faults import end_with_fault
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.metrics.counters import InstanceStatistics, Snapshot
from deployments.response_cache.key import request_key
from deployments.response_cache.store import CacheStore
from deployments.tracing.passing_sink import PassingSink

_log = logging.getLogger(__name__)

Forward = Callable[[InferenceRequest, ResponseSink], Inflight]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(InferenceResponse)


class CachedModel:
    """The cache of one ready model version.

    Args:
        store: Where entries lie.
        clock_ns: Monotonic clock.

    Attributes:
        identity: Stands for the version as it is loaded now; whoever changes it leaves the old
            entries to die of age.
        store: Where entries lie.
        clock_ns: Monotonic clock.
        statistics: Hits and misses counted here.
    """

    __slots__ = ("clock_ns", "identity", "statistics", "store")

    def __init__(self, store: CacheStore, clock_ns: Callable[[], int]) -> None:
        self.store = store
        self.clock_ns = clock_ns
        self.identity = b""
        self.statistics = InstanceStatistics()

    def start(self, request: InferenceRequest, sink: ResponseSink, forward: Forward) -> Inflight:
        """Answer a checked request from the cache or by ``forward``."""
        key = request_key(self.identity, request)
        if key is None:
            return forward(request, sink)
        cached = _CachedRequest(self, key, request, sink, forward)
        self.store.find(key, cached.found)
        return cached

    def snapshot(self) -> Snapshot:
        """Return the counters."""
        return self.statistics.snapshot(0)


class _CachedRequest(PassingSink):
    """One request of a cached model: what looks it up, then the sink of the model's answer."""

    __slots__ = ("_forward", "_inner", "_is_over", "_key", "_lookup_ns", "_model", "_request",
                 "_start_ns")  # fmt: skip

    def __init__(
        self,
        model: CachedModel,
        key: bytes,
        request: InferenceRequest,
        sink: ResponseSink,
        forward: Forward,
    ) -> None:
        super().__init__(sink)
        self._model = model
        self._key = key
        self._request = request
        self._forward = forward
        self._inner: Inflight | None = None
        self._is_over = False
        self._start_ns = model.clock_ns()
        self._lookup_ns = 0

    def found(self, entry: bytes | None) -> None:
        """Take the end of the lookup; whatever that raises is the outcome."""
        if self._is_over:
            return
        try:
            self._answer_or_forward(entry)
        except Exception as error:
            self._is_over = True
            end_with_fault(self.sink, error, "a request of a cached model")

    def _answer_or_forward(self, entry: bytes | None) -> None:
        model = self._model
        self._lookup_ns = model.clock_ns() - self._start_ns
        response = None if entry is None else self._decoded(entry)
        if response is None:
            self._inner = self._forward(self._request, self)
            return
        self._is_over = True
        response.id = self._request.id
        # Of the execution that made it; this request has cost none.
        response.share_ns = response.queue_ns = 0
        model.statistics.record_cache_hit(model.clock_ns() - self._start_ns, self._lookup_ns)
        self.sink.respond(response, final=True)

    def cancel(self) -> None:
        """Cancel the request wherever it is."""
        if self._inner is not None:
            self._inner.cancel()
        elif not self._is_over:
            self._is_over = True
            self.sink.fail(RequestCancelledError(""))

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Keep the model's answer and pass it on."""
        if response is not None:
            model = self._model
            start_ns = model.clock_ns()
            model.store.insert(self._key, _encoder.encode(response))
            insert_ns = model.clock_ns() - start_ns
            model.statistics.record_cache_miss(self._lookup_ns + insert_ns)
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on; it is not kept."""
        self._model.statistics.record_cache_miss(self._lookup_ns)
        self.sink.fail(error, final=final)

    def _decoded(self, entry: bytes) -> InferenceResponse | None:
        # Entries of a shared store may have been written by another release.
        try:
            return _decoder.decode(entry)
        except msgspec.MsgspecError:
            _log.warning("an entry of the response cache cannot be read and is taken for a miss")
            return None
