# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request that records its answers, so that backends are tested without a server."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.errors import InternalError, TritonError
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)


class RecordingRequest:
    """An `ExecuteRequest` that keeps what it is answered with, in order."""

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.is_cancelled = False
        self.answers: list[InferenceResponse | TritonError] = []
        self.done = threading.Event()
        self.is_rescheduled = False

    def reschedule(self) -> None:
        self.is_rescheduled = True

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        assert not self.is_done
        if response is not None:
            self.answers.append(response)
        if final:
            self.done.set()

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        assert not self.is_done
        self.answers.append(error)
        if final:
            self.done.set()

    @property
    def is_done(self) -> bool:
        """Whether the final answer was given."""
        return self.done.is_set()

    @property
    def response(self) -> InferenceResponse:
        """The only answer, which must be a response."""
        assert self.is_done
        (answer,) = self.answers
        assert isinstance(answer, InferenceResponse), answer
        return answer

    @property
    def error(self) -> TritonError:
        """The only answer, which must be an error."""
        assert self.is_done
        (answer,) = self.answers
        assert isinstance(answer, TritonError), answer
        return answer

    def arrays(self) -> dict[str, np.ndarray]:
        """The outputs of the only response, by name, in its order."""
        return {output.name: tensor_as_numpy(output) for output in self.response.outputs}


def recorded(
    inputs: dict[str, np.ndarray], *, outputs: Sequence[str] = (), **fields: Any
) -> RecordingRequest:
    """Return a request with these inputs that records its answers."""
    tensors = [tensor_from_numpy(name, array) for name, array in inputs.items()]
    return RecordingRequest(
        InferenceRequest("model", inputs=tensors, outputs=list(outputs), **fields)
    )


def execute(instance: ModelInstance, *requests: RecordingRequest) -> ExecuteBatch:
    """Execute the requests as one batch, failing what is unanswered as an executor does."""
    batch = ExecuteBatch(requests)
    try:
        instance.execute(batch)
    except TritonError as error:
        _fail_unanswered(requests, error)
    except Exception as error:
        _fail_unanswered(requests, InternalError(str(error)))
    return batch


def _fail_unanswered(requests: Sequence[RecordingRequest], error: TritonError) -> None:
    for request in requests:
        if not request.is_done:
            request.fail(error)
