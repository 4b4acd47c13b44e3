# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client that a run's options ask for."""

import ssl
from collections.abc import Callable
from typing import Final

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.clients.contract import Client
from manta_tools.perf.clients.endpoint_client import EndpointClient
from manta_tools.perf.clients.http_client import HttpClient
from manta_tools.perf.options.table import PerfOptions

_SCHEME: Final = "https://"


def new_client(options: PerfOptions, clock: Callable[[], int]) -> Client:
    """Make the client, within a running loop.

    Raises:
        InvalidArgumentError: The address is none, or a certificate cannot be read.
    """
    address = _address(options.url)
    if options.protocol == "grpc":
        # protobuf and tritonclient take a quarter of a second to import.
        from manta_tools.perf.clients.grpc_client import GrpcClient  # noqa: PLC0415

        return GrpcClient(
            address,
            clock,
            tls=_grpc_tls(options) if options.ssl_grpc_use_ssl else None,
            headers=options.header,
            compression=options.grpc_compression_algorithm,
            is_streaming=options.streaming,
        )
    tls = _tls(options) if options.url.startswith(_SCHEME) else None
    if options.service_kind == "openai":
        return EndpointClient(options.endpoint, address, clock, tls=tls, headers=options.header)
    return HttpClient(address, clock, tls=tls, headers=options.header)


def metrics_page(options: PerfOptions, clock: Callable[[], int]) -> tuple[HttpClient, str]:
    """Return the client of the server's metrics, and their path.

    Raises:
        InvalidArgumentError: The address is none.
    """
    host, _, path = options.metrics_url.removeprefix("http://").partition("/")
    return HttpClient(_address(host), clock), f"/{path or 'metrics'}"


def _address(url: str) -> tuple[str, int]:
    is_tls = url.startswith(_SCHEME)
    text = url.removeprefix(_SCHEME).removeprefix("http://").rstrip("/")
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "443" if is_tls else "80"
    if not (host and port.isdecimal()):
        raise InvalidArgumentError(f"'{url}' is no address; expected host:port")
    return host.strip("[]"), int(port)


def _tls(options: PerfOptions) -> ssl.SSLContext:
    context = _context(
        options.ssl_https_ca_certificates_file,
        options.ssl_https_client_certificate_file,
        options.ssl_https_private_key_file,
    )
    context.check_hostname = options.ssl_https_verify_host > 0 < options.ssl_https_verify_peer
    if not options.ssl_https_verify_peer:
        context.verify_mode = ssl.CERT_NONE
    return context


def _grpc_tls(options: PerfOptions) -> ssl.SSLContext:
    context = _context(
        options.ssl_grpc_root_certifications_file,
        options.ssl_grpc_certificate_chain_file,
        options.ssl_grpc_private_key_file,
    )
    context.set_alpn_protocols(["h2"])
    return context


def _context(roots: str, certificate: str, key: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=roots or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"the certificates for -u cannot be read: {error}") from None
    return context
