# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client that a run's options ask for."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError
from cluster.tools.perf.clients.contract import Client
from cluster.tools.perf.clients.http_client import HttpClient
from cluster.tools.perf.options.table import PerfOptions

_SCHEME: Final = "https://"


def new_client(options: PerfOptions, clock: Callable[[], int]) -> Client:
    """Make the client, within a running loop.

    Raises:
        InvalidArgumentError: The address is none, or a certificate cannot be read.
    """
    if options.protocol == "grpc":
        # grpcio takes a quarter of a second to import.
        from cluster.tools.perf.clients.grpc_client import GrpcClient, credentials  # noqa: PLC0415

        return GrpcClient(
            options.url,
            clock,
            credentials=credentials(
                _bytes(options.ssl_grpc_root_certifications_file),
                _bytes(options.ssl_grpc_private_key_file),
                _bytes(options.ssl_grpc_certificate_chain_file),
            )
            if options.ssl_grpc_use_ssl
            else None,
            headers=options.header,
            compression=options.grpc_compression_algorithm,
            is_streaming=options.streaming,
        )
    address = _address(options.url)
    tls = _tls(options) if options.url.startswith(_SCHEME) else None
    return HttpClient(address, clock, tls=tls, headers=options.header)


def _address(url: str) -> tuple[str, int]:
    is_tls = url.startswith(_SCHEME)
    text = url.removeprefix(_SCHEME).removeprefix("http://").rstrip("/")
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "443" if is_tls else "80"
    if not (host and port.isdecimal()):
        raise InvalidArgumentError(f"-u '{url}' is no address; expected host:port")
    return host.strip("[]"), int(port)


def _tls(options: PerfOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.ssl_https_ca_certificates_file or None)
        if options.ssl_https_client_certificate_file:
            context.load_cert_chain(
                options.ssl_https_client_certificate_file,
                options.ssl_https_private_key_file or None,
            )
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"the certificates for -u cannot be read: {error}") from None
    context.check_hostname = options.ssl_https_verify_host > 0 < options.ssl_https_verify_peer
    if not options.ssl_https_verify_peer:
        context.verify_mode = ssl.CERT_NONE
    return context


def _bytes(path: str) -> bytes | None:
    return Path(path).read_bytes() if path else None
