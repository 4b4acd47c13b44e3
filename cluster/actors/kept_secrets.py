# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The values of secret options in the cluster's store, for processes that Ray starts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from cluster.actors.file_registry import Rows
from cluster.options.parsing import ServerOptions
from cluster.options.secret_values import (
    SECRETS_KEY,
    encode_secrets,
    has_secrets,
    read_secrets,
    with_secrets,
    without_secrets,
)
from cluster.options.settings_at_start import cache_settings
from deployments.ingress_settings import IngressSettings

FillSettings = Callable[[IngressSettings], IngressSettings]


def keep_secrets(options: ServerOptions, rows: Rows | None = None) -> ServerOptions:
    """Put the secrets of a server's options into the store; return the options without them."""
    if not has_secrets(options):
        return options
    (rows or Rows()).put(SECRETS_KEY, encode_secrets(options))
    return without_secrets(options)


def fills_settings(options: ServerOptions) -> FillSettings | None:
    """Return what puts the secrets into an ingress's settings there; None where there are none."""
    return partial(_filled, without_secrets(options)) if has_secrets(options) else None


def _filled(
    options: ServerOptions, settings: IngressSettings, rows: Rows | None = None
) -> IngressSettings:
    options = with_secrets(options, (rows or Rows()).get(SECRETS_KEY))
    return replace(
        settings,
        http_restrictions=options.http_restricted_api,
        grpc_restrictions=options.grpc_restricted_protocol,
        cache=cache_settings(options.cache_config),
    )


def kept_cache(rows: Rows | None = None) -> tuple[str, Mapping[str, str]] | None:
    """Return name and settings of the response cache; None without one."""
    return cache_settings(read_secrets((rows or Rows()).get(SECRETS_KEY))["cache_config"])
