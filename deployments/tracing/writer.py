# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes traces of Triton's mode to files, off the event loop.

With a log frequency of N, every N traces make a file with an index. Without one, traces go to one
file: with a finite count all at once to a file with an index when the count is used up, else to the
file itself, at most a second after they ended.

Triton: server/src/tracer.cc TraceManager::TraceSetting::WriteTrace @e1db8a6
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deployments.settings.server_settings import TRITON_MODE, ServerSettings, TraceSettings
from deployments.tracing.file import append_traces, trace_json, write_indexed_traces
from deployments.tracing.sampling import Sampler
from deployments.tracing.tracer import Trace, TraceWriter

_log = logging.getLogger(__name__)

_FLUSH_S: Final = 1.0
# Traces of tensors can be large; so many bytes do not wait for more.
_FLUSH_BYTES: Final = 16 << 20


def make_trace_writer(settings: ServerSettings) -> TraceWriter:
    """Return the writer of the server's trace mode; it does not change while the server runs.

    Raises:
        UnavailableError: The packages of OpenTelemetry mode are not installed.
    """
    if settings.trace.mode == TRITON_MODE:
        return TraceFileWriter(settings.started_s)
    from deployments.tracing.otlp import OtlpWriter  # noqa: PLC0415 - an optional dependency

    return OtlpWriter(settings.trace.extra)


class _Collected:
    """Traces of one sampler that are not written yet."""

    __slots__ = ("bytes", "elements", "total")

    def __init__(self) -> None:
        self.elements: list[bytes] = []
        self.bytes = 0
        self.total = 0


class TraceFileWriter:
    """Implements `TraceWriter`.

    Args:
        started_s: When the server started; older files are overwritten.
    """

    def __init__(self, started_s: float) -> None:
        self._started_s = started_s
        self._collected: dict[Sampler, _Collected] = {}
        self._next_index: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        # One thread, so that files get their traces in order.
        self._pool = ThreadPoolExecutor(1, "manta-trace")

    def write(self, trace: Trace) -> None:
        """Take a trace."""
        collected = self._collected.setdefault(trace.sampler, _Collected())
        text = trace_json(trace.models, trace.front, has_timestamps=trace.has_timestamps)
        if not text:
            return
        collected.elements.append(text)
        collected.bytes += len(text)
        collected.total += 1
        settings = trace.sampler.settings
        if settings.log_frequency:
            if len(collected.elements) >= settings.log_frequency or self._is_used_up(trace.sampler):
                self._flush(trace.sampler, to_index=True)
        elif self._is_used_up(trace.sampler):
            self._flush(trace.sampler, to_index=True)
        elif collected.bytes >= _FLUSH_BYTES:
            self._flush(trace.sampler, to_index=False)
        elif settings.count < 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self._flush_open)

    def _is_used_up(self, sampler: Sampler) -> bool:
        return sampler.left == 0 and self._collected[sampler].total >= sampler.used

    def settle(self, sampler: Sampler) -> None:
        """Write what was taken under settings that no longer hold."""
        if sampler in self._collected:
            self._flush(sampler, to_index=bool(sampler.settings.log_frequency))
            del self._collected[sampler]

    async def close(self) -> None:
        """Write everything."""
        if self._timer is not None:
            self._timer.cancel()
        for sampler in list(self._collected):
            self.settle(sampler)
        await asyncio.to_thread(self._pool.shutdown)

    def _flush_open(self) -> None:
        self._timer = None
        for sampler in self._collected:
            if not sampler.settings.log_frequency and sampler.settings.count < 0:
                self._flush(sampler, to_index=False)

    def _flush(self, sampler: Sampler, *, to_index: bool) -> None:
        collected = self._collected[sampler]
        if not collected.elements:
            return
        elements, collected.elements, collected.bytes = collected.elements, [], 0
        self._pool.submit(self._save, sampler.settings, elements, to_index)

    def _save(self, settings: TraceSettings, elements: list[bytes], to_index: bool) -> None:
        path, text = settings.file, b",".join(elements)
        try:
            if to_index:
                first = self._next_index.get(path, 0)
                index = write_indexed_traces(path, text, self._started_s, first)
                self._next_index[path] = index + 1
            else:
                append_traces(path, text, self._started_s)
        except OSError as error:
            _log.error("failed creating trace file: %s", error)
