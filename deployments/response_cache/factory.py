# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The store that ``--cache-config`` asks for."""

import time
from collections.abc import Mapping

from backends.api.errors import InvalidArgumentError
from deployments.response_cache.local import LocalCache
from deployments.response_cache.redis import RedisCache, redis_arguments
from deployments.response_cache.store import CacheStore

_CREDENTIALS = {
    "user": "TRITONCACHE_REDIS_USERNAME",
    "password": "TRITONCACHE_REDIS_PASSWORD",
}


def check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Check the settings of a cache without creating it.

    Raises:
        InvalidArgumentError: There is no such cache, or a setting is missing, unknown or wrong.
    """
    if name == "local":
        _local_size_bytes(settings)
    elif name == "redis":
        redis_arguments(settings)
    else:
        raise InvalidArgumentError(f"--cache-config names cache '{name}'; there are: local, redis")


def make_store(
    name: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> CacheStore:
    """Create the store.

    Args:
        name: ``local`` or ``redis``.
        settings: Its settings.
        environment: Where Redis's credentials may stand instead.

    Raises:
        InvalidArgumentError: As `check_settings`.
    """
    check_settings(name, settings)
    if name == "local":
        return LocalCache(_local_size_bytes(settings), time.monotonic_ns)
    found = {
        key: environment[variable]
        for key, variable in _CREDENTIALS.items()
        if variable in environment
    }
    return RedisCache({**found, **settings})


def _local_size_bytes(settings: Mapping[str, str]) -> int:
    unknown = next((key for key in settings if key != "size"), None)
    if unknown is not None:
        raise InvalidArgumentError(f"--cache-config local has no setting '{unknown}'; it has: size")
    text = settings.get("size", "")
    if not text.isdecimal() or int(text) == 0:
        given = f"got '{text}'" if "size" in settings else "and it is missing"
        raise InvalidArgumentError(f"--cache-config local,size must be a number of bytes, {given}")
    return int(text)
