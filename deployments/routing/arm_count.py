# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counts how a version that a rollout has chosen answers."""

import time
from typing import Final

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
    UnknownError,
)
from backends.api.request import InferenceResponse
from deployments.contracts.arm_report import ArmReport
from deployments.metrics.distributions import class_of
from deployments.tracing.passing_sink import Observer

_NS_PER_US: Final = 1000
# What the version has to answer for; the rest is the request's, or its client's.
_FAULTS: Final = frozenset((InternalError.code, UnknownError.code, UnavailableError.code))


class ArmCount(Observer):
    """Counts a request for its version, by the request's end."""

    __slots__ = ("_compute_ns", "_counts", "_has_failed", "_start_ns")

    def __init__(self, counts: ArmReport) -> None:
        self._counts = counts
        self._has_failed = False
        self._compute_ns: tuple[int, int, int] | None = None
        self._start_ns = time.monotonic_ns()

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        """Note what the execution took."""
        if final:
            self._compute_ns = response.compute_ns

    def failed(self, error: TritonError) -> None:
        """Note a fault."""
        self._has_failed = self._has_failed or error.code in _FAULTS

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        """Count the request; neither one that was cancelled nor one that was refused as wrong."""
        if error is None:
            self._count(is_fault=self._has_failed)
        elif error.code in _FAULTS:
            self._count(is_fault=True)
        elif error.code != RequestCancelledError.code and not is_refusal:
            self._count(is_fault=self._has_failed)

    def _count(self, *, is_fault: bool) -> None:
        counts = self._counts
        counts.requests += 1
        if is_fault:
            counts.errors += 1
            return
        took_ns = time.monotonic_ns() - self._start_ns
        number = class_of(took_ns // _NS_PER_US)
        counts.latencies[number] = counts.latencies.get(number, 0) + 1
        compute_ns = self._compute_ns
        if compute_ns is not None:
            number = class_of(max(0, took_ns - sum(compute_ns)) // _NS_PER_US)
            counts.queue[number] = counts.queue.get(number, 0) + 1
