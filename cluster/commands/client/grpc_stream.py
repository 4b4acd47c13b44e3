# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request over gRPC's ModelStreamInfer: all datatypes and shapes, each response as it comes."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from backends.api.errors import (
    ERROR_BY_CODE,
    GRPC_STATUS,
    TritonError,
    UnavailableError,
    UnknownError,
)
from cluster.commands.client.calls import Call
from cluster.commands.client.connection import LONG_TIMEOUT_S
from cluster.commands.client.contexts import Target
from cluster.commands.client.tensors import pack, unpack
from cluster.commands.replay.sending import open_channel, put_parameters

_ERRORS: Final = {GRPC_STATUS[code]: kind for code, kind in ERROR_BY_CODE.items()}


def responses(
    call: Call, url: str, target: Target, headers: Mapping[str, str], *, is_encrypted: bool
) -> Iterator[dict[str, Any]]:
    """Yield the responses to a request as the JSON of HTTP has them, with the values of outputs.

    Args:
        call: The request.
        url: Host and port of gRPC.
        target: Has the files of certificates, and how long the server may be silent.
        headers: Credentials among them.
        is_encrypted: Whether it is asked by TLS.

    Raises:
        OSError: A file of certificates cannot be read.
        TritonError: There is no server, it is silent for too long, or a response is an error.
    """
    limit_s = target.timeout_s or LONG_TIMEOUT_S
    metadata = [(name.lower(), value) for name, value in headers.items()]
    with open_channel(url, _credentials(target) if is_encrypted else None) as channel:
        answers = GRPCInferenceServiceStub(channel).ModelStreamInfer(
            iter([_message(call)]), metadata=metadata
        )
        is_silent = threading.Event()

        def end() -> None:
            is_silent.set()
            answers.cancel()

        try:
            while True:
                timer = threading.Timer(limit_s, end)
                timer.daemon = True
                timer.start()
                try:
                    answer = next(answers, None)
                finally:
                    timer.cancel()
                if answer is None:
                    return
                if answer.error_message:
                    raise UnknownError(answer.error_message)
                yield _document(answer.infer_response)
        except grpc.RpcError as error:
            if is_silent.is_set():
                raise UnavailableError(
                    f"no answer from {url} within {limit_s:g} s; give --timeout SECONDS to wait"
                    " longer"
                ) from None
            raise _told(url, error) from None
        finally:
            answers.cancel()


def _credentials(target: Target) -> grpc.ChannelCredentials:
    authority, key, certificate = (
        Path(path).read_bytes() if path else None
        for path in (target.ca_cert, target.client_key or target.client_cert, target.client_cert)
    )
    return grpc.ssl_channel_credentials(authority, key, certificate)


def _message(call: Call) -> Any:
    message = service_pb2.ModelInferRequest(
        model_name=call.model, model_version=call.version, id=call.id
    )
    for each in call.tensors:
        message.inputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
        data = each.data if isinstance(each.data, bytes) else pack(each.data, each.datatype)
        message.raw_input_contents.append(data)
    put_parameters(message, call.parameters)
    return message


def _document(response: Any) -> dict[str, Any]:
    raws = iter(response.raw_output_contents)
    document: dict[str, Any] = {"id": response.id} if response.id else {}
    document |= {"model_name": response.model_name, "model_version": response.model_version}
    parameters = {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in sorted(response.parameters.items())
    }
    if parameters:
        document["parameters"] = parameters
    document["outputs"] = [
        {
            "name": each.name,
            "datatype": each.datatype,
            "shape": list(each.shape),
            "data": unpack(next(raws, b""), each.datatype),
        }
        for each in response.outputs
    ]
    return document


def _told(url: str, error: grpc.RpcError) -> TritonError:
    code = error.code()
    details = error.details() or code.name
    if code is grpc.StatusCode.UNAVAILABLE and not error.trailing_metadata():
        return UnavailableError(f"no gRPC server at {url} ({details}); give --grpc HOST:PORT")
    return _ERRORS.get(code.value[0], UnknownError)(details)
