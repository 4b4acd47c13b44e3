# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An OTLP/HTTP receiver of a few lines."""

import contextlib
import http.server
import queue
import threading
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpReceiver(http.server.ThreadingHTTPServer):
    """Takes what a server exports.

    Attributes:
        received: The path and the message of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: queue.Queue[tuple[str, ExportTraceServiceRequest]] = queue.Queue()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, OtlpReceiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.put((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextlib.contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Listen while the block runs."""
    with OtlpReceiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
