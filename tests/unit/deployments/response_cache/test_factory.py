# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of --cache-config."""

import pytest

from backends.api.errors import InvalidArgumentError
from deployments.response_cache.factory import check_settings, make_store
from deployments.response_cache.local import LocalCache
from deployments.response_cache.redis import redis_arguments


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("local", {}, "local,size must be a number of bytes, and it is missing"),
        ("local", {"size": "1GB"}, "got '1GB'"),
        ("local", {"size": "9", "ttl": "1"}, "local has no setting 'ttl'; it has: size"),
        ("disk", {"size": "9"}, "names cache 'disk'; there are: local, redis"),
        ("redis", {"hots": "x"}, "redis has no setting 'hots'"),
        ("redis", {"port": "x"}, "redis,port must be a number"),
        ("redis", {"tls_enabled": "maybe"}, "redis,tls_enabled must be true or false"),
    ],
)
def test_wrong_settings_are_refused_by_name(name, settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        check_settings(name, settings)


def test_local_has_a_size():
    assert isinstance(make_store("local", {"size": "1000"}, {}), LocalCache)


def test_redis_settings_become_its_clients():
    given = {"host": "h", "port": "1", "user": "u", "socket_timeout": "250", "tls_enabled": "true"}
    arguments = redis_arguments(given)
    assert (arguments["host"], arguments["port"], arguments["username"]) == ("h", 1, "u")
    assert (arguments["socket_timeout"], arguments["ssl"]) == (0.25, True)
