# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Secret options in the cluster's store, and in no argument of an actor."""

import pickle

import pytest

from backends.api.errors import UnavailableError
from cluster.actors.kept_secrets import _filled, fills_settings, keep_secrets, kept_cache
from cluster.options.parsing import parse_options
from cluster.options.secret_values import without_secrets
from cluster.server.app import application, settings_from
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
    settings = _filled(told, settings_from(told), rows)
    wanted = settings_from(OPTIONS)
    assert settings.http_restrictions == wanted.http_restrictions
    assert settings.grpc_restrictions == wanted.grpc_restrictions
    assert settings.cache == wanted.cache == ("redis", {"host": "h", "password": "hush-redis"})
    assert settings.restricted_headers == {"x-key", "triton-grpc-protocol-x-key"}


def test_an_instance_finds_the_response_cache_in_the_store() -> None:
    rows = DictRows()
    keep_secrets(OPTIONS, rows)
    assert kept_cache(rows) == ("redis", {"host": "h", "password": "hush-redis"})


def test_an_ingress_whose_secrets_are_gone_serves_nobody() -> None:
    told = without_secrets(OPTIONS)
    with pytest.raises(UnavailableError):
        _filled(told, settings_from(told), DictRows())


def test_options_without_secrets_are_told_as_they_are() -> None:
    rows, plain = DictRows(), without_secrets(OPTIONS)
    assert keep_secrets(plain, rows) is plain
    assert rows.writes == 0
    assert fills_settings(plain) is None


@pytest.mark.filterwarnings("ignore:The `metrics_interval_s`:DeprecationWarning")
def test_no_argument_of_an_ingress_has_a_secret() -> None:
    deployment = application(OPTIONS, follow_nodes=True)._bound_deployment
    assert b"hush" not in pickle.dumps(deployment.init_args)
    assert b"kept_secrets" in pickle.dumps(deployment.init_args)
