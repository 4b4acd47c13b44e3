# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A response cache in Redis, shared by every ingress of the cluster.

Redis bounds and evicts by its own settings. A server that is slow or away costs answers their
cache, never the answers: a lookup that fails is a miss, an entry that cannot be stored is dropped.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from backends.api.errors import InvalidArgumentError
from deployments.response_cache.store import Found

_log = logging.getLogger(__name__)

_PREFIX = b"manta/response/"
# Entries on their way to a slow server; more are dropped.
_MAX_PENDING_BYTES = 64 * 1024 * 1024
# Lookups a slow server has not answered; more are misses at once.
_MAX_LOOKUPS = 1000
_COMPLAINT_INTERVAL_S = 30.0

# Setting of --cache-config redis,... -> argument of redis.asyncio.Redis, and its kind.
_SETTINGS: dict[str, tuple[str, str]] = {
    "host": ("host", "text"),
    "port": ("port", "number"),
    "user": ("username", "text"),
    "password": ("password", "text"),
    "db": ("db", "number"),
    "connect_timeout": ("socket_connect_timeout", "milliseconds"),
    "socket_timeout": ("socket_timeout", "milliseconds"),
    "pool_size": ("max_connections", "number"),
    "tls_enabled": ("ssl", "flag"),
    "cert": ("ssl_certfile", "text"),
    "key": ("ssl_keyfile", "text"),
    "cacert": ("ssl_ca_certs", "text"),
}
_DEFAULTS: dict[str, Any] = {
    "host": "localhost",
    "port": 6379,
    "socket_connect_timeout": 1.0,
    "socket_timeout": 1.0,
}
_MS_PER_S = 1000
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def redis_arguments(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the client's arguments for ``--cache-config redis,<key>=<value>`` settings.

    Raises:
        InvalidArgumentError: A setting is unknown or has no valid value.
    """
    arguments = dict(_DEFAULTS)
    for name, text in settings.items():
        if name not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise InvalidArgumentError(
                f"--cache-config redis has no setting '{name}'; it has: {known}"
            )
        argument, kind = _SETTINGS[name]
        arguments[argument] = _read(name, text, kind)
    return arguments


def _read(name: str, text: str, kind: str) -> Any:
    if kind == "text":
        return text
    if kind == "flag":
        if text.lower() not in _FLAGS:
            raise InvalidArgumentError(f"--cache-config redis,{name} must be true or false")
        return _FLAGS[text.lower()]
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"--cache-config redis,{name} must be a number that is not negative, got '{text}'"
        )
    return int(text) / _MS_PER_S if kind == "milliseconds" else int(text)


class RedisCache:
    """The store; opens connections with the first request.

    Args:
        settings: The settings of ``--cache-config redis,...``.

    Raises:
        InvalidArgumentError: A setting is wrong, or the client library is not installed.

    Triton: redis_cache/src/redis_cache.cc
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        arguments = redis_arguments(settings)
        try:
            from redis import RedisError  # noqa: PLC0415 - only servers with this cache need it
            from redis.asyncio import Redis  # noqa: PLC0415
        except ImportError as error:
            raise InvalidArgumentError(
                "--cache-config redis needs the Redis client: pip install 'manta-serve[redis]'"
            ) from error
        self._client: Any = Redis(**arguments)
        self._failures: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._lookups = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending_bytes = 0
        self._complained_s = -_COMPLAINT_INTERVAL_S

    def find(self, key: bytes, found: Found, /) -> None:
        """See `CacheStore`; calls back when Redis has answered or failed."""
        if self._lookups >= _MAX_LOOKUPS:
            found(None)
            return
        self._lookups += 1
        self._spawn(self._find(key, found))

    def insert(self, key: bytes, entry: bytes, /) -> None:
        """See `CacheStore`."""
        if self._pending_bytes + len(entry) <= _MAX_PENDING_BYTES:
            self._pending_bytes += len(entry)
            self._spawn(self._insert(key, entry))

    def gauges(self) -> Mapping[str, float]:
        """See `CacheStore`; Redis tells its own."""
        return {}

    async def close(self) -> None:
        """Wait for entries on their way and close the connections."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._client.aclose()

    async def _find(self, key: bytes, found: Found) -> None:
        entry: bytes | None = None
        try:
            entry = await self._client.get(_PREFIX + key)
        except self._failures as error:
            self._complain(error)
        except Exception:
            # A fault of the client library costs the cache, not the answer.
            _log.exception("a lookup in the Redis response cache failed")
        finally:
            self._lookups -= 1
        found(entry)

    async def _insert(self, key: bytes, entry: bytes) -> None:
        try:
            await self._client.set(_PREFIX + key, entry, nx=True)
        except self._failures as error:
            self._complain(error)
        except Exception:
            _log.exception("an entry could not be put into the Redis response cache")
        finally:
            self._pending_bytes -= len(entry)

    def _complain(self, error: Exception) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._complained_s >= _COMPLAINT_INTERVAL_S:
            self._complained_s = now_s
            _log.warning("the Redis response cache does not answer: %s", type(error).__name__)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
