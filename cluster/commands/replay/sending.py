# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends captured requests over gRPC, whose raw contents are the captured bytes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from backends.api.request import SEQUENCE_END, SEQUENCE_START
from cluster.commands.replay.records import Replayed
from deployments.captures.records import CaptureRecord, KeptRequest, KeptResponse, KeptTensor

Metadata = Sequence[tuple[str, str]]

_NS_PER_US: Final = 1000
_FINAL: Final = "triton_final_response"
_UNBOUNDED: Final = -1


@dataclass(frozen=True, slots=True)
class Target:
    """Whom records are sent to.

    Attributes:
        model: Name of the model; empty for each record's own.
        version: Its version; empty for what the server chooses.
    """

    model: str = ""
    version: str = ""
    metadata: Metadata = ()
    timeout_s: float = 60.0


def open_channel(url: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """Return a channel; encrypted where there are credentials."""
    options = [
        ("grpc.max_send_message_length", _UNBOUNDED),
        ("grpc.max_receive_message_length", _UNBOUNDED),
    ]
    if credentials is None:
        return grpc.insecure_channel(url, options=options)
    return grpc.secure_channel(url, credentials, options)


class Sender:
    """Sends records over a channel."""

    def __init__(self, channel: grpc.Channel, target: Target) -> None:
        self._stub = GRPCInferenceServiceStub(channel)
        self._target = target
        self._is_decoupled: dict[str, bool] = {}

    def send(self, record: CaptureRecord) -> Replayed:
        """Send one and wait for all that comes of it."""
        asked = record.request
        if asked is None:
            raise ValueError(f"record {record.id} has no request")
        model = self._target.model or record.model
        message = to_message(asked, model, self._target.version)
        began_ns = time.monotonic_ns()
        try:
            if self._decoupled(model):
                responses = list(self._stream(message))
            else:
                answer = self._stub.ModelInfer(
                    message, timeout=self._target.timeout_s, metadata=self._target.metadata
                )
                responses = [from_message(answer)]
        except grpc.RpcError as error:
            return Replayed(record, (), error.code().name, error.details() or "")
        except StreamFailedError as error:
            return Replayed(record, (), "FAILED", str(error))
        latency_us = (time.monotonic_ns() - began_ns) // _NS_PER_US
        return Replayed(record, responses, latency_us=latency_us)

    def _decoupled(self, model: str) -> bool:
        found = self._is_decoupled.get(model)
        if found is None:
            answer = self._stub.ModelConfig(
                service_pb2.ModelConfigRequest(name=model, version=self._target.version),
                timeout=self._target.timeout_s,
                metadata=self._target.metadata,
            )
            found = bool(answer.config.model_transaction_policy.decoupled)
            self._is_decoupled[model] = found
        return found

    def _stream(self, message: Any) -> Iterator[KeptResponse]:
        message.parameters["triton_enable_empty_final_response"].bool_param = True
        calls = self._stub.ModelStreamInfer(
            iter([message]), timeout=self._target.timeout_s, metadata=self._target.metadata
        )
        for answer in calls:
            if answer.error_message:
                raise StreamFailedError(answer.error_message)
            response = answer.infer_response
            if response.outputs:
                yield from_message(response)
            if response.parameters[_FINAL].bool_param:
                return


class StreamFailedError(Exception):
    """A response of a stream is an error."""


def to_message(request: KeptRequest, model: str, version: str) -> Any:
    """Return the message of a captured request."""
    message = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=request.id)
    for tensor in request.inputs:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data)
    for name in request.outputs:
        message.outputs.add(name=name)
    given = dict(request.parameters)
    if request.priority:
        given["priority"] = request.priority
    if request.timeout_us:
        given["timeout"] = request.timeout_us
    if request.correlation_id:
        given["sequence_id"] = request.correlation_id
        given["sequence_start"] = bool(request.flags & SEQUENCE_START)
        given["sequence_end"] = bool(request.flags & SEQUENCE_END)
    put_parameters(message, given)
    return message


def put_parameters(message: Any, given: Mapping[str, Any]) -> None:
    """Give a request's message its parameters."""
    for name, value in given.items():
        parameter = message.parameters[name]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, int):
            parameter.int64_param = value
        elif isinstance(value, float):
            parameter.double_param = value
        else:
            parameter.string_param = value


def from_message(answer: Any) -> KeptResponse:
    """Return what a response has, as far as it is compared."""
    raws = iter(answer.raw_output_contents)
    return KeptResponse(
        tuple(
            KeptTensor(each.name, each.datatype, tuple(each.shape), next(raws, b""))
            for each in answer.outputs
        ),
        {},
    )
