# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Values of secret options apart from the others."""

import pickle

import pytest

from backends.api.errors import UnavailableError
from cluster.options.parsing import ServerOptions, from_mapping, parse_options, render_options
from cluster.options.secret_values import (
    encode_secrets,
    has_secrets,
    with_secrets,
    without_secrets,
)

FLAGS = (
    "--model-repository=/m",
    "--http-restricted-api=trace,logging:x-key=hush-http",
    "--grpc-restricted-protocol=trace:x-key=hush-grpc",
    "--cache-config=redis,host=h",
    "--cache-config=redis,password=hush-redis",
    "--http-port=9000",
)


def _options() -> ServerOptions:
    return parse_options(FLAGS, {}, lambda _: "")


def test_options_without_their_secrets_hold_none_and_keep_the_others() -> None:
    told = without_secrets(_options())
    assert b"hush" not in pickle.dumps(told)
    assert told.http_port == 9000
    assert not has_secrets(told)
    assert has_secrets(_options())


def test_a_row_of_the_store_makes_them_whole_again() -> None:
    options = _options()
    assert with_secrets(without_secrets(options), encode_secrets(options)) == options


def test_without_the_row_nothing_that_was_restricted_is_open() -> None:
    with pytest.raises(UnavailableError, match="start the server again"):
        with_secrets(without_secrets(_options()), None)


def test_options_are_listed_without_the_users_of_their_urls() -> None:
    options = from_mapping({"model_repository": "ftp://who:hush@host/models"})
    assert "hush" not in render_options(options)
    assert "ftp://***@host/models" in render_options(options)
