# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a model's responses: one JSON object, or a stream of events.

An error before the first chunk is an HTTP error of its own status. Behind a chunk the status has
been sent: the error is the stream's last event. Where a decoupled model would go on after an error,
the request is cancelled, since no client reads on.
"""

import logging
from typing import Protocol

from backends.api.errors import InternalError, TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import Inflight
from deployments.http.codec.openai_errors import failure
from deployments.http.openai.framing import Framing
from deployments.http.server.exchange import EVENTS, HttpExchange

logger = logging.getLogger(__name__)


class Answer(Protocol):
    """How a model's responses become JSON objects."""

    def take(self, response: InferenceResponse) -> list[bytes]:
        """Return the objects that a response brings, if any.

        Raises:
            TritonError: It is no response of such a model.
        """

    def end(self) -> list[bytes]:
        """Return the objects that follow the last response."""


class Form(Protocol):
    """How objects become an answer."""

    def send(self, text: bytes) -> None:
        """Take one object."""

    def fail(self, error: TritonError) -> None:
        """End with an error."""

    def finish(self) -> None:
        """End.

        Raises:
            TritonError: What was sent is no answer.
        """


class Whole:
    """The one object, sent once it is known that it stays the only one.

    Args:
        exchange: What is answered.
        model_name: For messages.
    """

    __slots__ = ("_body", "_count", "_exchange", "_model_name")

    def __init__(self, exchange: HttpExchange, model_name: str) -> None:
        self._exchange = exchange
        self._model_name = model_name
        self._body = b""
        self._count = 0

    def send(self, text: bytes) -> None:
        """Hold the object back: it may not stay the only one."""
        self._body = text
        self._count += 1

    def fail(self, error: TritonError) -> None:
        """Answer with an error."""
        self._exchange.fail(error)

    def finish(self) -> None:
        """Answer with the object.

        Raises:
            InternalError: There is none, or there are several.
        """
        if self._count != 1:
            raise InternalError(
                f"model '{self._model_name}' answered with {self._count} objects where the request"
                " asks for no stream; expected one"
            )
        self._exchange.reply_json(self._body)


class Events:
    """One event for each object.

    Args:
        exchange: What is answered.
        framing: Of the route.
    """

    __slots__ = ("_exchange", "_framing", "_has_begun")

    def __init__(self, exchange: HttpExchange, framing: Framing) -> None:
        self._exchange = exchange
        self._framing = framing
        self._has_begun = False

    def send(self, text: bytes) -> None:
        """Send the object at once."""
        self._write(self._framing.event(text))

    def fail(self, error: TritonError) -> None:
        """Answer with an error, or end the stream with one."""
        if not self._has_begun:
            self._exchange.fail(error)
            return
        body = failure(error, self._exchange.head.url)[1]
        self._write(self._framing.event(body))
        self._exchange.end_stream()

    def finish(self) -> None:
        """End the stream."""
        self._write(self._framing.end)
        self._exchange.end_stream()

    def _write(self, piece: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._exchange.begin_stream(200, EVENTS)
        self._exchange.write(piece)


class OpenAISink:
    """Takes the responses of one request.

    Args:
        exchange: What is answered.
        model_name: The model asked.
        answer: How its responses become objects.
        form: How objects become the answer.
    """

    __slots__ = (
        "_answer",
        "_exchange",
        "_form",
        "_has_ended",
        "_inflight",
        "_is_cut",
        "_model_name",
    )

    def __init__(self, exchange: HttpExchange, model_name: str, answer: Answer, form: Form) -> None:
        self._exchange = exchange
        self._model_name = model_name
        self._answer = answer
        self._form = form
        self._inflight: Inflight | None = None
        self._has_ended = False
        # Whether the answer has ended and the model has not.
        self._is_cut = False

    def started(self, inflight: Inflight) -> None:
        """Let the request be cancelled when the peer goes."""
        if not self._has_ended:
            self._inflight = inflight
            self._exchange.on_disconnect = inflight.cancel
        elif self._is_cut:
            inflight.cancel()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        if self._has_ended:
            return
        try:
            if response is not None:
                for text in self._answer.take(response):
                    self._form.send(text)
            if final:
                for text in self._answer.end():
                    self._form.send(text)
                self._form.finish()
                self._end()
        except TritonError as error:
            self.fail(error, final=final)
        except Exception:
            logger.exception("failed to encode a response of model '%s'", self._model_name)
            reason = f"failed to encode the response of model '{self._model_name}'"
            self.fail(InternalError(reason), final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """End the answer with an error."""
        if self._has_ended:
            return
        inflight = self._inflight
        self._is_cut = not final
        self._end()
        self._form.fail(error)
        if self._is_cut and inflight is not None:
            inflight.cancel()

    def _end(self) -> None:
        self._has_ended = True
        # Sink, request and exchange refer to each other; cut here, all are freed at once.
        self._inflight = None
