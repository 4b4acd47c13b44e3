# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests are traced. Pure.

Triton: server/src/tracer.cc TraceManager::TraceSetting::SampleTrace @e1db8a6
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from deployments.settings.server_settings import TraceSettings

_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?"
)
_TRACEPARENT_LIMIT_BYTES: Final = 512
_TRACESTATE_LIMIT_BYTES: Final = 512


class RemoteSpan(msgspec.Struct, frozen=True):
    """The span of a caller, as a client's headers name it.

    Attributes:
        trace_id: W3C trace id.
        span_id: W3C parent id.
        state: Value of ``tracestate``; empty when there is none.
    """

    trace_id: int
    span_id: int
    state: str = ""


def remote_span(headers: Iterable[tuple[bytes, bytes]]) -> RemoteSpan | None:
    """Return the span that ``traceparent`` and ``tracestate`` name, or None without a valid one.

    W3C Trace Context, level 1: names have any case, a later version may have more fields.
    """
    parent = None
    states: list[bytes] = []
    for name, value in headers:
        lowered = name.lower()
        if lowered == b"traceparent" and len(value) <= _TRACEPARENT_LIMIT_BYTES:
            parent = _TRACEPARENT.fullmatch(value.strip())
        elif lowered == b"tracestate":
            states.append(value.strip())
    if parent is None:
        return None
    state = b",".join(states)
    if len(state) > _TRACESTATE_LIMIT_BYTES:
        state = b""
    return RemoteSpan(int(parent[1], 16), int(parent[2], 16), state.decode("ascii", "ignore"))


class Sampler:
    """Counts the requests under one set of trace settings and picks those that are traced.

    Args:
        settings: The settings; ``count`` as it was when they were made.

    Attributes:
        settings: The settings it samples by.
        used: Traces taken off the count here.
        used_elsewhere: Traces that other ingress replicas took off it.
    """

    __slots__ = ("_seen", "settings", "used", "used_elsewhere")

    def __init__(self, settings: TraceSettings) -> None:
        self.settings = settings
        self.used = 0
        self.used_elsewhere = 0
        self._seen = 0

    @property
    def left(self) -> int:
        """Traces that may still be taken; -1 has no end."""
        count = self.settings.count
        return count if count < 0 else max(0, count - self.used - self.used_elsewhere)

    def sample(self, *, forced: bool = False) -> bool:
        """Count a request and return whether it is traced.

        Args:
            forced: Whether it is traced whatever rate and count say: its caller is.
        """
        settings = self.settings
        is_hit = False
        # A rate of 0 traces nothing but what callers trace.
        if settings.level and settings.rate:
            left = self.left
            if left or forced:
                self._seen += 1
                is_hit = bool(left) and self._seen % settings.rate == 0
                if is_hit and left > 0:
                    self.used += 1
        return bool(settings.level) and (is_hit or forced)
