# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Secret options in the cluster's store, and in no argument of an actor."""

import pytest

from backends.api.errors import UnavailableError
from cluster.actors.kept_secrets import _filled, fills_settings, keep_secrets, kept_cache
from cluster.options.parsing import parse_options
from cluster.options.secret_values import without_secrets
from deployments.ingress_settings import IngressSettings
from tests.support.registry_rows import DictRows

FLAGS = (
    "--model-repository=/m",
    "--http-restricted-api=trace,logging:x-key=hush-http",
    "--grpc-restricted-protocol=trace:X-Key=hush-grpc",
    "--cache-config=redis,host=h",
    "--cache-config=redis,password=hush-redis",
)
OPTIONS = parse_options(FLAGS, {}, lambda _: "")


def test_an_ingress_finds_its_secrets_in_the_store() -> None:
    rows = DictRows()
    told = keep_secrets(OPTIONS, rows)
    assert told == without_secrets(OPTIONS)
    settings = _filled(told, IngressSettings(), rows)
    assert settings.http_restrictions == OPTIONS.http_restricted_api
    assert settings.grpc_restrictions == OPTIONS.grpc_restricted_protocol
    assert settings.cache == ("redis", {"host": "h", "password": "hush-redis"})
    assert settings.restricted_headers == {"x-key", "triton-grpc-protocol-x-key"}


def test_an_instance_finds_the_response_cache_in_the_store() -> None:
    rows = DictRows()
    keep_secrets(OPTIONS, rows)
    assert kept_cache(rows) == ("redis", {"host": "h", "password": "hush-redis"})


def test_an_ingress_whose_secrets_are_gone_serves_nobody() -> None:
    told = without_secrets(OPTIONS)
    with pytest.raises(UnavailableError):
        _filled(told, IngressSettings(), DictRows())


def test_options_without_secrets_are_told_as_they_are() -> None:
    rows, plain = DictRows(), without_secrets(OPTIONS)
    assert keep_secrets(plain, rows) is plain
    assert rows.writes == 0
    assert fills_settings(plain) is None
