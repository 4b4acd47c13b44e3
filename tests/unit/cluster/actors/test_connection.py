# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a GCS asks for Ray's token, as a stranger finds out."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
import pytest

from cluster.actors.connection import asks_for_token


@contextmanager
def answering(code: grpc.StatusCode) -> Iterator[str]:
    """Be a GCS that answers everything with a status."""

    def answer(_request: bytes, context: grpc.ServicerContext) -> bytes:
        if code is not grpc.StatusCode.OK:
            context.abort(code, "no")
        return b""

    class Handler(grpc.GenericRpcHandler):
        def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        (grpc.StatusCode.OK, False),
        (grpc.StatusCode.UNAUTHENTICATED, True),
        (grpc.StatusCode.UNAVAILABLE, None),
    ],
)
def test_a_gcs_asks_for_the_token_if_it_refuses_who_has_none(
    code: grpc.StatusCode, asks: bool | None
) -> None:
    with answering(code) as address:
        assert asks_for_token(address) is asks
