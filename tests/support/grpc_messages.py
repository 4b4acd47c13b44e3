# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of Triton's gRPC service for clients that are not ``tritonclient``."""

import struct

import numpy as np
from google.protobuf import descriptor_pb2
from tritonclient.grpc import service_pb2

from tests.support.clients import LEFT, RIGHT

INFER_PATH = "/inference.GRPCInferenceService/ModelInfer"


def add_sub_request() -> service_pb2.ModelInferRequest:
    """The request whose answer `check_add_sub_answer` expects."""
    request = service_pb2.ModelInferRequest(model_name="add_sub")
    for name, array in (("INPUT0", LEFT), ("INPUT1", RIGHT)):
        request.inputs.add(name=name, datatype="INT32", shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return request


def check_add_sub_answer(answer: service_pb2.ModelInferResponse) -> None:
    """Assert that an answer is the sum and difference."""
    total, difference = answer.raw_output_contents
    assert total == (LEFT + RIGHT).tobytes()
    assert difference == (LEFT - RIGHT).tobytes()


def identity_request(content: bytes) -> service_pb2.ModelInferRequest:
    """A request of the model ``identity`` for these bytes."""
    request = service_pb2.ModelInferRequest(model_name="identity")
    request.inputs.add(name="IN", datatype="UINT8", shape=[len(content)])
    request.raw_input_contents.append(content)
    return request


def words_request(text: str) -> service_pb2.ModelInferRequest:
    """A request of the decoupled model ``words``, which answers word by word."""
    request = service_pb2.ModelInferRequest(model_name="words")
    tensor = request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return request


def word(answer: service_pb2.ModelStreamInferResponse) -> str:
    """The word in an answer of ``words``."""
    assert not answer.error_message
    return str(answer.infer_response.raw_output_contents[0][4:].decode())


def patient_request(waits: bool) -> service_pb2.ModelInferRequest:
    """A request of the model ``patient``, which may work until it is cancelled."""
    request = service_pb2.ModelInferRequest(model_name="patient")
    request.inputs.add(name="WAIT", datatype="INT32", shape=[1])
    request.raw_input_contents.append(np.array([waits], np.int32).tobytes())
    return request


def framed(message: bytes) -> bytes:
    """A message as it stands in the body of a gRPC request."""
    return struct.pack(">BI", 0, len(message)) + message


def unframed(body: bytes) -> bytes:
    """The only message of an answer's body."""
    flag, size = struct.unpack_from(">BI", body)
    assert (flag, size) == (0, len(body) - 5)
    return body[5:]


def descriptor_set() -> bytes:
    """The service as a FileDescriptorSet, from which other languages make their clients."""
    files = descriptor_pb2.FileDescriptorSet()
    for descriptor in (*service_pb2.DESCRIPTOR.dependencies, service_pb2.DESCRIPTOR):
        descriptor.CopyToProto(files.file.add())
    return bytes(files.SerializeToString())
