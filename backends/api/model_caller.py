# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a model calls other models and controls the repository.

The process that runs an instance implements `ModelCaller` and hands it to the backend; the backend
knows neither lanes nor the cluster.
"""

from collections.abc import Mapping
from typing import Protocol

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse, ParameterValue


class CallSink(Protocol):
    """Receives the outcome of one call, on a thread of the caller's; must not block.

    Exactly one terminal call is made: ``respond`` or ``fail`` with final=True.
    """

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response; None (only with final=True) says that there is no further one."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error; with final=True it ends the call."""


class Call(Protocol):
    """A call on its way."""

    def cancel(self) -> None:
        """Ask for the call to be dropped; its sink still gets its terminal call. Idempotent."""


class ModelCaller(Protocol):
    """Calls models; every method may be used from any thread of the model's."""

    def call(self, request: InferenceRequest, sink: CallSink, *, decoupled: bool) -> Call:
        """Send a request; everything that follows, errors too, reaches the sink.

        Args:
            request: Model, version (-1 for the newest) and everything else.
            sink: Takes the outcome.
            decoupled: Whether a decoupled model may be called.
        """

    def is_model_ready(self, name: str, version: int) -> bool:
        """Whether a version, or with -1 the newest, takes requests."""

    def load_model(self, name: str, parameters: Mapping[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until it is ready.

        Raises:
            TritonError: As the repository API would.
        """

    def unload_model(self, name: str, *, unload_dependents: bool) -> None:
        """Unload a model and wait until that is done.

        Raises:
            TritonError: As the repository API would.
        """
