# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The two gRPC servers with the paths of the inference service."""

from collections.abc import Mapping
from typing import Any

from deployments.grpc.kserve.service import INFERENCE_PATHS, PATHS, STREAM_PATHS
from deployments.grpc.rpc.service import RpcService
from deployments.grpc.server.grpcio_server import GrpcioServer


def grpcio_server(
    service: RpcService, options: Mapping[str, int] | None = None, **more: Any
) -> GrpcioServer:
    return GrpcioServer(
        service,
        options,
        paths=PATHS,
        stream_paths=STREAM_PATHS,
        compressed_paths=INFERENCE_PATHS,
        **more,
    )
