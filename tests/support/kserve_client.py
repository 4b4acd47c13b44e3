# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a server with KServe's own client, over both protocols; run in an environment that has it.

Arguments are a host, the ports of HTTP and gRPC, and the name of an add/sub model. It ends with 0
when every answer was right.
"""

import asyncio
import sys

import numpy as np
from kserve import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferInput,
    InferRequest,
    InferResponse,
    RESTConfig,
)

_ROW = np.arange(16, dtype=np.int32).reshape(1, 16)


def request_for(model: str, *, is_binary: bool) -> InferRequest:
    """Return a request whose two inputs are the same."""
    inputs = [InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for each in inputs:
        each.set_data_from_numpy(_ROW, binary_data=is_binary)
    parameters = {"binary_data_output": is_binary}
    return InferRequest(model, inputs, request_id="7", parameters=parameters)


def check(answer: InferResponse) -> None:
    """Check that it is the sum and the difference."""
    found = {output.name: output.as_numpy() for output in answer.outputs}
    assert answer.id == "7", answer.id
    assert np.array_equal(found["OUTPUT0"], 2 * _ROW), found
    assert np.array_equal(found["OUTPUT1"], 0 * _ROW), found


async def ask_http(url: str, model: str) -> None:
    """Ask over HTTP, with values in JSON and in bytes."""
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        # The server's health it can only read from a body, which Triton does not send either.
        assert await client.is_model_ready(url, model)
        for is_binary in (False, True):
            check(await client.infer(url, request_for(model, is_binary=is_binary), model))


async def ask_grpc(address: str, model: str) -> None:
    """Ask over gRPC."""
    async with InferenceGRPCClient(address) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready(model)
        for is_binary in (False, True):
            check(await client.infer(request_for(model, is_binary=is_binary)))


async def main(host: str, http_port: str, grpc_port: str, model: str) -> None:
    """Ask over both."""
    await ask_http(f"http://{host}:{http_port}", model)
    await ask_grpc(f"{host}:{grpc_port}", model)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
