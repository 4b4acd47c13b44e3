# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An OTLP/HTTP receiver of a few lines."""

import queue

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.loopback_server import LoopbackServer, QuietHandler


class OtlpReceiver(LoopbackServer):
    """Takes what a server exports.

    Attributes:
        received: The path and the message of each request.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.received: queue.Queue[tuple[str, ExportTraceServiceRequest]] = queue.Queue()


class _Handler(QuietHandler):
    here: OtlpReceiver

    def respond(self) -> None:
        self.here.received.put((self.path, ExportTraceServiceRequest.FromString(self.body())))
        self.answer(200)
