# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Redis cache that fails costs answers their cache, never the answers."""

import asyncio

import pytest

from backends.api.errors import InternalError
from backends.api.request import InferenceRequest
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.response_cache import redis
from deployments.response_cache.cached_model import CachedModel
from deployments.response_cache.redis import RedisCache
from tests.support import virtual_time
from tests.support.cluster_of_instances import request
from tests.support.lane_rig import Sink


class Client:
    """A client whose server answers after a second, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.lookups = 0
        self.is_closed = False

    async def get(self, key: bytes) -> bytes:
        self.lookups += 1
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return b"entry"

    async def set(self, key: bytes, entry: bytes, *, nx: bool) -> None:
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        self.is_closed = True


def cache(client: Client) -> RedisCache:
    store = RedisCache({})
    store._client = client
    return store


def test_a_lookup_that_fails_in_any_way_is_a_miss() -> None:
    async def main() -> None:
        for error in (OSError("refused"), RuntimeError("a fault of the client library")):
            store, found = cache(Client(error)), []
            store.find(b"key", found.append)
            store.insert(b"key", b"entry")
            await store.close()
            assert found == [None]

    virtual_time.run(main())


def test_lookups_beyond_the_bound_are_misses_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "_MAX_LOOKUPS", 2)

    async def main() -> None:
        client, found = Client(), []
        store = cache(client)
        for _ in range(3):
            store.find(b"key", found.append)
        assert found == [None]
        await asyncio.sleep(2)
        assert found == [None, b"entry", b"entry"]
        store.find(b"key", found.append)
        await store.close()
        assert found[3:] == [b"entry"]
        assert (client.lookups, client.is_closed) == (3, True)

    virtual_time.run(main())


def test_a_request_whose_miss_meets_a_fault_is_internal() -> None:
    def forward(request: InferenceRequest, sink: ResponseSink) -> Inflight:
        raise ValueError("no such row")

    async def main() -> None:
        store, sink = cache(Client(OSError("refused"))), Sink()
        CachedModel(store, lambda: 0).start(request(), sink, forward)
        await sink.ended
        assert isinstance(sink.error, InternalError)
        assert "ValueError: no such row" in sink.error.message
        await store.close()

    virtual_time.run(main())
