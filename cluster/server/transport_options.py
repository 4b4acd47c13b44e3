# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What flags tell the ingresses' parts: TLS, access, keepalive, captures."""

from typing import Final

from cluster.options.checks import TLS_PORTS
from cluster.options.parsing import ServerOptions
from deployments.access.policy_files import load_policy
from deployments.captures.making import read_config
from deployments.grpc.server.grpcio_server import OPTIONS
from deployments.security.tls import TlsFiles

# To gRPC an age of 0 would be one.
_UNSET_IF_0: Final = ("max-connection-age", "max-connection-age-grace")


def tls_files(options: ServerOptions, protocol: str) -> TlsFiles | None:
    """Return where the TLS files of a port are: ``http``, ``grpc`` or ``metrics``.

    None when the port is off or plaintext.
    """
    if not getattr(options, f"allow_{protocol}") or not getattr(options, f"{protocol}_use_ssl"):
        return None
    root: str = getattr(options, f"{protocol}_root_cert")
    is_mutual: bool = getattr(options, f"{protocol}_use_ssl_mutual")
    # An access policy may know callers by their certificates; others need show none.
    return TlsFiles(
        protocol,
        certificate=getattr(options, f"{protocol}_server_cert"),
        key=getattr(options, f"{protocol}_server_key"),
        root=root,
        is_mutual=is_mutual,
        is_optional=bool(root and options.access_policy) and not is_mutual,
    )


def check_tls(options: ServerOptions) -> None:
    """Check the TLS files of this node; each ingress does so again on its own.

    Raises:
        InvalidArgumentError: A file cannot be used; the message names flag and file.
    """
    for protocol in TLS_PORTS:
        files = tls_files(options, protocol)
        if files is not None:
            files.pems()


def check_captures(options: ServerOptions) -> None:
    """Check what is to be captured; each ingress does so again on its own.

    Raises:
        InvalidArgumentError: The file cannot be used; the message says what is wrong in it.
    """
    if options.capture_config:
        read_config(options.capture_config)


def check_access(options: ServerOptions) -> None:
    """Check the access policy of this node, if there is one; each ingress does so on its own.

    Raises:
        InvalidArgumentError: One of its files cannot be used; the message names it.
    """
    if options.access_policy:
        load_policy(options.access_policy)


# What of a start needs no Ray.
FILE_CHECKS: Final = (check_tls, check_captures, check_access)


def listeners(options: ServerOptions) -> tuple[tuple[str, bool, str, int], ...]:
    """Return protocol, whether it is on, address and port."""
    metrics_address = options.metrics_address or options.http_address
    return (
        ("http", options.allow_http, options.http_address, options.http_port),
        ("grpc", options.allow_grpc, options.grpc_address, options.grpc_port),
        ("metrics", options.allow_metrics, metrics_address, options.metrics_port),
        ("openai", bool(options.openai_port), options.http_address, options.openai_port),
    )


def grpc_options(options: ServerOptions) -> dict[str, int]:
    """Return the keepalive flags by their names without ``--grpc-``; those of value 0 are unset."""
    values = {name: int(getattr(options, f"grpc_{name.replace('-', '_')}")) for name in OPTIONS}
    return {name: value for name, value in values.items() if value or name not in _UNSET_IF_0}
