# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import threading

from backends.api.errors import InternalError
from backends.api.request import InferenceResponse
from backends.llm.pacing import paced
from tests.support.recording import RecordingRequest, recorded


class Slow(RecordingRequest):
    """A request whose caller takes a response when the test says so."""

    def __init__(self, request):
        super().__init__(request)
        self.taken = threading.Semaphore(0)

    def respond(self, response, *, final=True):
        assert self.taken.acquire(timeout=10)
        super().respond(response, final=final)


def test_a_caller_without_a_window_is_answered_directly():
    request = recorded({})
    assert paced(request) is request


def test_a_caller_that_takes_its_time_does_not_hold_up_whoever_responds():
    request = Slow(recorded({}, window=1).request)
    answering = paced(request)
    for at in range(3):
        answering.respond(InferenceResponse("m", "1", str(at)), final=at == 2)
    assert not request.answers
    request.taken.release(3)
    assert request.done.wait(10)
    assert [answer.id for answer in request.answers] == ["0", "1", "2"]


def test_an_error_comes_after_what_was_sent_before():
    request = Slow(recorded({}, window=1).request)
    answering = paced(request)
    answering.respond(InferenceResponse("m", "1", "0"), final=False)
    answering.fail(InternalError("broken"))
    request.taken.release()
    assert request.done.wait(10)
    assert [type(answer) for answer in request.answers] == [InferenceResponse, InternalError]


def test_a_request_is_cancelled_when_its_caller_has_gone():
    request = recorded({}, window=1)
    answering = paced(request)
    assert not answering.is_cancelled
    request.is_cancelled = True
    assert answering.is_cancelled
    answering.respond(None)
    assert request.done.wait(10)
