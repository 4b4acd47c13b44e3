# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that names its addresses, such as localhost:8000, against others.

python redirected.py HTTP GRPC METRICS PROGRAM [ARGUMENT...]
"""

import runpy
import socket
import sys
from typing import Any

import grpc
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

NAMED_HOST = "localhost"
NAMED_PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}


def redirect_clients(http_url: str, grpc_url: str) -> None:
    """Make client classes and gRPC channels go elsewhere in this process."""
    for module, address in (
        (tritonclient.http, http_url),
        (tritonclient.http.aio, http_url),
        (tritonclient.grpc, grpc_url),
        (tritonclient.grpc.aio, grpc_url),
    ):
        made = module.InferenceServerClient

        def elsewhere(
            url: str, *args: Any, _made: Any = made, _address: str = address, **kwargs: Any
        ) -> Any:
            return _made(_address, *args, **kwargs)

        module.InferenceServerClient = elsewhere
    channel = grpc.insecure_channel
    named = f"{NAMED_HOST}:{NAMED_PORTS['grpc']}"

    def channel_elsewhere(target: str, *args: Any, **kwargs: Any) -> Any:
        return channel(grpc_url if target == named else target, *args, **kwargs)

    grpc.insecure_channel = channel_elsewhere


def redirect_sockets(addresses: dict[int, tuple[str, int]]) -> None:
    """Make sockets and name look-ups go elsewhere; requests and aiohttp are made of both."""
    resolve = socket.getaddrinfo

    def resolve_elsewhere(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host == NAMED_HOST and isinstance(port, int):
            host, port = addresses.get(port, (host, port))
        return resolve(host, port, *args, **kwargs)

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            if address[0] == NAMED_HOST:
                address = addresses.get(address[1], address)
            super().connect(address)

    socket.getaddrinfo = resolve_elsewhere
    socket.socket = Socket


def redirect(http: str, grpc_url: str, metrics: str) -> None:
    """Send what goes to the named ports to these addresses."""
    redirect_clients(http, grpc_url)
    elsewhere = zip(NAMED_PORTS.values(), (http, grpc_url, metrics), strict=True)
    split = {port: address.rsplit(":", 1) for port, address in elsewhere}
    redirect_sockets({port: (host, int(number)) for port, (host, number) in split.items()})


if __name__ == "__main__":
    redirect(*sys.argv[1:4])
    sys.argv = sys.argv[4:]
    runpy.run_path(sys.argv[0], run_name="__main__")
