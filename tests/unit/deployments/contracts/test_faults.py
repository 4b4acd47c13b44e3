# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request that meets a fault of the server's code has an outcome, and the log says where."""

import pytest

from backends.api.errors import InternalError, NotFoundError, TritonError
from deployments.contracts.faults import end_with_fault


class Sink:
    def __init__(self, raises: bool = False) -> None:
        self.errors: list[tuple[TritonError, bool]] = []
        self.raises = raises

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.errors.append((error, final))
        if self.raises:
            raise RuntimeError("a sink with a fault")


def test_a_fault_ends_its_request_with_internal_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Sink()
    end_with_fault(sink, ValueError("no such row"), "a request of model 'm'")
    ((error, final),) = sink.errors
    assert isinstance(error, InternalError)
    assert final
    assert error.message == (
        "a request of model 'm' failed: ValueError: no such row; the server's log says where"
    )
    assert "ValueError: no such row" in caplog.text


def test_an_error_of_triton_is_its_own_and_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    sink, error = Sink(), NotFoundError("no model")
    end_with_fault(sink, error, "a request")
    assert sink.errors == [(error, True)]
    assert caplog.text == ""


def test_a_sink_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    end_with_fault(Sink(raises=True), ValueError("no such row"), "a request")
    assert "a sink with a fault" in caplog.text
