# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What drives the gRPC service as a transport does."""

import asyncio

import numpy as np
from tritonclient.grpc import service_pb2

ZEROS = np.zeros(16, np.int32).tobytes()


class RecordedReply:
    def __init__(self):
        self.messages, self.status, self.details = [], None, ""
        self.timeout_ns, self.retry_s = 0, 0.0
        self.answers_held_bytes, self.let_go_bytes = 0, 0
        self.done = asyncio.Event()

    def send(self, message):
        assert self.status is None
        self.messages.append(message if isinstance(message, bytes) else b"".join(message))

    def finish(self, status=0, details="", retry_s=0.0):
        assert self.status is None, "finished twice"
        self.status, self.details, self.retry_s = status, details, retry_s
        self.done.set()

    def hold(self, count_bytes):
        self.answers_held_bytes += count_bytes

    def let_go(self, count_bytes):
        self.let_go_bytes += count_bytes

    def complete(self, message):
        self.send(message)
        self.finish()

    @property
    def streamed(self):
        return [service_pb2.ModelStreamInferResponse.FromString(each) for each in self.messages]


def rpc_path(rpc):
    return b"/inference.GRPCInferenceService/" + rpc.encode()


async def ask(service, rpc, request):
    """Run a unary RPC; return its status, details and parsed response."""
    reply = RecordedReply()
    call = service.start(rpc_path(rpc), [], reply)
    call.message(request.SerializeToString())
    call.half_closed()
    await reply.done.wait()
    kind = getattr(service_pb2, type(request).__name__.replace("Request", "Response"))
    return reply.status, reply.details, kind.FromString(b"".join(reply.messages))


def infer_request(model="simple", rid="", outputs=(), parameters=None, raw=(ZEROS, ZEROS)):
    request = service_pb2.ModelInferRequest(model_name=model, id=rid, raw_input_contents=list(raw))
    names = {"simple": ("INPUT0", "INPUT1"), "decoupled": ("COUNT",)}.get(model, ("IN",))
    for name in names:
        request.inputs.add(name=name, datatype="INT32", shape=[1, 16] if model == "simple" else [1])
    for name, classes in outputs:
        output = request.outputs.add(name=name)
        if classes:
            output.parameters["classification"].int64_param = classes
    for key, value in (parameters or {}).items():
        request.parameters[key].bool_param = value
    return request


def counted(model, number, rid="", **keywords):
    raw = [np.array([number], np.int32).tobytes()]
    return infer_request(model, rid, raw=raw, **keywords)
