# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The engine: one thread that has OpenVINO GenAI take step after step for all requests together.

At each step every running request gains a token. Between steps the thread takes new requests, lets
go of those that nobody waits for, and delivers what the step has brought.
"""

import itertools
import logging
import threading
import time
from functools import partial
from typing import Any, Final

import openvino_genai

from backends.api.backend import LoadContext
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.llm.api import Capabilities, Engine, EngineLoad, LlmRequest, Sink
from backends.llm.chat.routes import CHAT, COMPLETIONS
from backends.llm.files import ModelFiles
from backends.llm.openvino.failure import FAILURES, said
from backends.llm.openvino.properties import (
    SLOTS,
    device_of,
    device_properties,
    scheduler_settings,
)
from backends.llm.openvino.running import Running, begin, deliver
from backends.llm.openvino.tokenizer import OpenVinoTokenizer

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 50e-6
# As Triton's.
_CANCELLED: Final = "Request was cancelled"


def open_engine(context: LoadContext, files: ModelFiles) -> Engine:
    """Load a model and start its thread.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have.
        InternalError: OpenVINO cannot read or compile the model.
    """
    return OpenVinoEngine(context, files)


class OpenVinoEngine(Engine):
    """A pipeline with continuous batching, and its thread.

    Args:
        context: What is loaded.
        files: The model's files.
    """

    def __init__(self, context: LoadContext, files: ModelFiles) -> None:
        self._name = context.config.name
        settings = scheduler_settings(context)
        self._open = partial(_pipeline, context, files, settings)
        self._pipeline = self._open()
        self._tokenizer = OpenVinoTokenizer(self._pipeline.get_tokenizer(), self._name)
        routes = (CHAT, COMPLETIONS) if self._tokenizer.has_chat_template else (COMPLETIONS,)
        self._capabilities = Capabilities(routes, settings[SLOTS], files.context_tokens)
        self._changed = threading.Condition()
        self._arrived: list[tuple[LlmRequest, Sink]] = []
        self._running: dict[int, Running] = {}
        self._numbers = itertools.count(1)
        self._handle_numbers = itertools.count(1)
        self._is_closed = False
        self._is_healthy = True
        self._cache_usage = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"llm-engine-{self._name}", daemon=True
        )
        self._thread.start()

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._capabilities

    @property
    def tokenizer(self) -> OpenVinoTokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def is_healthy(self) -> bool:
        """Whether it can take steps; no while it recovers from one that failed."""
        return self._is_healthy

    def submit(self, request: LlmRequest, sink: Sink) -> None:
        """Have a request answered; from any thread, at once.

        Raises:
            UnavailableError: The engine is closed.
        """
        with self._changed:
            if self._is_closed:
                raise self._closed()
            self._arrived.append((request, sink))
            self._changed.notify()

    def metrics(self) -> EngineLoad:
        """Return how busy it is; from any thread."""
        count = len(self._running) + len(self._arrived)
        running = min(count, self._capabilities.slots)
        return EngineLoad(running, count - running, self._cache_usage)

    def close(self) -> None:
        """Fail what is not answered and free the model."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            logger.error("the engine of model '%s' does not end its step", self._name)

    def _run(self) -> None:
        try:
            self._turn()
        # Without its thread the engine would leave all requests unanswered.
        except Exception:
            logger.exception("the engine of model '%s' has ended", self._name)
            self._is_healthy = False
        with self._changed:
            self._is_closed = True
            for request, sink in self._arrived:
                self._running[next(self._numbers)] = Running(request, sink, [])
            self._arrived = []
        self._fail_all(self._closed())
        # On the thread that has used it.
        del self._pipeline

    def _turn(self) -> None:
        while self._take():
            self._drop_unwanted()
            try:
                if self._pipeline.has_non_finished_requests():
                    self._pipeline.step()
                    self._cache_usage = self._pipeline.get_metrics().cache_usage / 100.0
            except FAILURES as error:
                logger.exception("model '%s' failed in a step of its engine", self._name)
                self._recover(said(error))
                continue
            self._deliver()

    def _recover(self, reason: str) -> None:
        """Fail all requests, and make the pipeline usable again.

        One that has failed in a step takes no other until it has nothing to compute. Grammars are
        made in the first step of a request, so one with a schema that has no token is to blame.
        """
        blamed = [number for number, running in self._running.items() if running.is_in_doubt]
        for number in blamed:
            self._let_go(
                number,
                InvalidArgumentError(
                    f"the engine of model '{self._name}' can make no grammar of the JSON schema, "
                    f"or failed beside it: {reason}"
                ),
            )
        failed = f"model '{self._name}' failed in a step"
        self._fail_all(
            UnavailableError(f"{failed}, beside a request with a JSON schema: send it again")
            if blamed
            else InternalError(f"{failed}: {reason}")
        )
        self._is_healthy = False
        try:
            while self._pipeline.has_non_finished_requests():
                self._pipeline.step()
        except FAILURES:
            logger.warning("the engine of model '%s' is loaded again", self._name)
            self._reopen()
        else:
            self._is_healthy = True

    def _reopen(self) -> None:
        try:
            self._pipeline = self._open()
        except TritonError as error:
            logger.error("%s: it takes no more requests", error.message)  # noqa: TRY400 - one line
            with self._changed:
                self._is_closed = True
        else:
            self._is_healthy = True

    def _take(self) -> bool:
        """Begin what has come; False once the engine is closed."""
        with self._changed:
            # A step frees the memory of a request that was cancelled, also of the last one.
            while not (
                self._arrived
                or self._running
                or self._is_closed
                or self._pipeline.has_non_finished_requests()
            ):
                self._changed.wait()
            if self._is_closed:
                return False
            arrived, self._arrived = self._arrived, []
        for request, sink in arrived:
            self._begin(request, sink)
        return True

    def _begin(self, request: LlmRequest, sink: Sink) -> None:
        if sink.is_cancelled:
            Running(request, sink, []).fail(RequestCancelledError(_CANCELLED))
            return
        try:
            self._running[next(self._numbers)] = begin(
                self._pipeline, request, sink, self._handle_numbers, self._name
            )
        except TritonError as error:
            Running(request, sink, []).fail(error)
        # Whatever is wrong with a request must not end the engine.
        except Exception as error:
            logger.exception("model '%s' failed to begin a request", self._name)
            failed = InternalError(f"model '{self._name}' failed to begin the request: {error}")
            Running(request, sink, []).fail(failed)

    def _drop_unwanted(self) -> None:
        for number in [
            number for number, running in self._running.items() if running.sink.is_cancelled
        ]:
            self._let_go(number, RequestCancelledError(_CANCELLED))

    def _deliver(self) -> None:
        for number in deliver(list(self._running.items()), self._tokenizer.decode, self._name):
            self._let_go(number)
        # A step holds Python's lock: without a pause the thread that sends what was delivered would
        # get it after the next one only.
        time.sleep(_PAUSE_S)

    def _let_go(self, number: int, error: TritonError | None = None) -> None:
        """Have the pipeline free a request, and fail it if it has not ended."""
        running = self._running.pop(number, None)
        if running is None:
            return
        running.cancel()
        if error is not None:
            running.fail(error)

    def _fail_all(self, error: TritonError) -> None:
        for number in list(self._running):
            self._let_go(number, error)

    def _closed(self) -> UnavailableError:
        return UnavailableError(
            f"the engine of model '{self._name}' is closed: send the request to another instance"
        )


def _pipeline(context: LoadContext, files: ModelFiles, settings: dict[str, Any]) -> Any:
    scheduler = openvino_genai.SchedulerConfig()
    for name, value in settings.items():
        setattr(scheduler, name, value)
    device = device_of(context)
    try:
        return openvino_genai.ContinuousBatchingPipeline(
            files.path, scheduler, device, device_properties(context)
        )
    except FAILURES as error:
        raise InternalError(
            f"openvino error in loading model : {said(error)} (model '{context.config.name}', "
            f"'{files.path}', device {device})"
        ) from error
