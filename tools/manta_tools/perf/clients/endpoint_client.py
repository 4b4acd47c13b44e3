# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client of an endpoint that takes a JSON body and answers with JSON or with events.

Such are OpenAI's ``v1/chat/completions``, and Triton's ``generate`` and ``generate_stream``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.http_answers import Answer, EventReader
from manta_tools.perf.clients.http_client import HttpClient
from manta_tools.perf.clients.http_encoding import request_bytes
from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.payload_file import PAYLOAD
from manta_tools.perf.data.rows import Row
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.records import Listener, Request

# The last event of OpenAI's, which carries nothing.
_DONE: Final = b"[DONE]"
_ERROR: Final = b'{"error"'


class EndpointClient(HttpClient):
    """An endpoint of a server; each event of a stream is a response."""

    def __init__(self, path: str, address: tuple[str, int], clock: Callable[[], int], **more: Any):
        """Make a client; it connects when it is used.

        Args:
            path: Of the endpoint.
            address: Host and port.
            clock: The time, in nanoseconds.
            more: As `HttpClient` takes it.
        """
        super().__init__(address, clock, **more)
        self._path = "/" + path.lstrip("/")

    def encode(self, form: Form, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request."""
        del places, part
        headers = {"Content-Type": "application/json", **dict(form.headers)}
        body = row.inputs[PAYLOAD].raw
        return Payload(request_bytes("POST", self._path, self._host, body, headers), {})

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""
        events = EventReader()

        def part(data: bytes) -> None:
            now_ns = self._clock()
            for event in events.feed(data):
                if event.startswith(_ERROR):
                    request.error = request.error or event.decode(errors="replace")
                elif event != _DONE:
                    if request.contents is not None:
                        request.contents.append(event)
                    listener.responded(request, now_ns)

        def done(answer: Answer) -> None:
            request.receive_ns = answer.end_ns - answer.first_ns
            request.error = answer.error or request.error
            if not request.error and not request.responses_ns:
                # An answer in one piece, or in chunks that are no events.
                if request.contents is not None:
                    request.contents.append(answer.body)
                listener.responded(request, answer.end_ns)
            listener.ended(request, answer.end_ns)

        self._connections.exchange(request.payload.wire, done, part)
        request.send_ns = self._clock() - request.start_ns

    async def statistics(self, model: Model | None = None) -> Mapping[str, Any]:
        """Raise UnavailableError: an endpoint has none."""
        raise UnavailableError(f"{self._host}{self._path} has no statistics")
