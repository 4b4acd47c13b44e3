# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inference statistics of one instance, and their sum over instances.

Counters change once per executed batch. Every request of a batch is charged the whole batch's
compute times, as Triton's backends report them; queue, compute_input, compute_infer and
compute_output are counted for successes only and so have the same count.

Triton: core/src/infer_stats.cc @73aad7c
"""

import itertools
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from backends.api.backend import ExecuteBatch
from backends.api.custom_metrics import CustomFamily
from backends.api.evolving import evolves
from deployments.metrics.distributions import Distributions, add_classes

# Triton has a row for each position of the longest stream ever. A language model's streams have
# thousands, which every scrape would copy, send and add up.
LAST_RESPONSE_POSITION: Final = 999


class FailureReason(StrEnum):
    """Label ``reason`` of nv_inference_request_failure."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


class ResponseOutcome(StrEnum):
    """What a response of a decoupled model is."""

    SUCCESS = "success"
    FAIL = "fail"
    EMPTY = "empty"


class BatchStatistics(msgspec.Struct, array_like=True):
    """Executions of one batch size, and what they took."""

    count: int = 0
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0

    def add(self, part: "BatchStatistics") -> None:
        """Add what another instance counted."""
        self.count += part.count
        self.compute_input_ns += part.compute_input_ns
        self.compute_infer_ns += part.compute_infer_ns
        self.compute_output_ns += part.compute_output_ns


class ResponseStatistics(msgspec.Struct, array_like=True):
    """Responses of a decoupled model at one position in their stream.

    ``success_ns``, ``fail_ns`` and ``empty_ns`` run from the start of the execution.
    """

    success_count: int = 0
    success_ns: int = 0
    fail_count: int = 0
    fail_ns: int = 0
    empty_count: int = 0
    empty_ns: int = 0

    def add(self, part: "ResponseStatistics") -> None:
        """Add what another instance counted."""
        self.success_count += part.success_count
        self.success_ns += part.success_ns
        self.fail_count += part.fail_count
        self.fail_ns += part.fail_ns
        self.empty_count += part.empty_count
        self.empty_ns += part.empty_ns


class Snapshot(msgspec.Struct, array_like=True):
    """Counters since the instance was loaded; sums when merged.

    Attributes:
        last_inference_ms: Wall clock of the last execution, milliseconds since the epoch; 0 when
            there was none.
        inference_count: Successful inferences; a client batch of n counts n.
        execution_count: Batches that were executed or are being executed.
        success_count: Requests answered without error.
        success_ns: From receipt to response, over those.
        fail_count: Requests that failed, by reason.
        fail_ns: From receipt to failure, over those.
        queue_ns: From receipt to execution, over successes.
        compute_input_ns: Gathering inputs, over successes.
        compute_infer_ns: Running the model, over successes.
        compute_output_ns: Building responses, over successes.
        cache_hit_count: Requests the response cache answered.
        cache_hit_ns: Looking those up.
        cache_miss_count: Requests it could not answer.
        cache_miss_ns: Looking those up and storing their responses.
        pending_count: Requests enqueued and not executing, at the time of the snapshot.
        batches: By batch size.
        responses: By position in the stream, from 0; decoupled models only. The row at
            `LAST_RESPONSE_POSITION` counts all later responses too.
        latencies: Classes of the last minute's latencies, see `Distributions`; if summaries are on.
        bucket_counts: Requests by the time to their first response; if histograms are on.
        first_response_ms: Sum of those times.
        custom: Metrics of the model's own, of all instances.
    """

    last_inference_ms: int = 0
    inference_count: int = 0
    execution_count: int = 0
    success_count: int = 0
    success_ns: int = 0
    fail_count: dict[str, int] = {}
    fail_ns: int = 0
    queue_ns: int = 0
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0
    cache_hit_count: int = 0
    cache_hit_ns: int = 0
    cache_miss_count: int = 0
    cache_miss_ns: int = 0
    pending_count: int = 0
    batches: dict[int, BatchStatistics] = {}
    responses: dict[int, ResponseStatistics] = {}
    latencies: list[dict[int, int]] = []
    bucket_counts: list[int] = []
    first_response_ms: int = 0
    custom: list[CustomFamily] = []


evolves(BatchStatistics, ResponseStatistics, Snapshot)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    """Return the snapshot as the bytes a lane carries."""
    return _encoder.encode(snapshot)


def decode(data: bytes | memoryview) -> Snapshot:
    """Read what `encode` wrote.

    Raises:
        msgspec.DecodeError: The bytes are no snapshot.
    """
    return _decoder.decode(data)


class ExecutionTimes(msgspec.Struct):
    """Instants of one execution, nanoseconds of the executor's clock."""

    start_ns: int
    input_end_ns: int
    output_start_ns: int
    end_ns: int

    @property
    def compute_ns(self) -> tuple[int, int, int]:
        """What input, inference and output took."""
        return (
            self.input_end_ns - self.start_ns,
            self.output_start_ns - self.input_end_ns,
            self.end_ns - self.output_start_ns,
        )


def times_of(batch: ExecuteBatch, start_ns: int, end_ns: int) -> ExecutionTimes:
    """Return the instants of an execution; a backend's own stamps are taken only as far as sane."""
    input_end_ns = min(max(batch.compute_input_end_ns, start_ns), end_ns)
    output_start_ns = batch.compute_output_start_ns or end_ns
    return ExecutionTimes(
        start_ns, input_end_ns, min(max(output_start_ns, input_end_ns), end_ns), end_ns
    )


class InstanceStatistics:
    """The counters of one instance. Not locked: the executor calls it under its own lock.

    Attributes:
        distributions: Where single latencies are noted too; None unless metrics show them.
    """

    __slots__ = ("_totals", "distributions")

    def __init__(self) -> None:
        self.distributions: Distributions | None = None
        self._totals = Snapshot(fail_count=dict.fromkeys(FailureReason, 0))

    def record_start(self) -> None:
        """Count a batch as it starts, since a decoupled model may answer before it ends."""
        self._totals.execution_count += 1

    def record_execution(self, batch_size: int, times: ExecutionTimes, wall_ms: int) -> None:
        """Note the times of a started batch, whether or not its requests succeeded.

        Args:
            batch_size: Sum of its requests' batch sizes.
            times: When it ran.
            wall_ms: Now, milliseconds since the epoch.
        """
        totals = self._totals
        totals.last_inference_ms = wall_ms
        batch = totals.batches.get(batch_size)
        if batch is None:
            batch = totals.batches[batch_size] = BatchStatistics()
        batch.count += 1
        batch.compute_input_ns += times.input_end_ns - times.start_ns
        batch.compute_infer_ns += times.output_start_ns - times.input_end_ns
        batch.compute_output_ns += times.end_ns - times.output_start_ns

    def record_success(
        self, request_count: int, inference_count: int, enqueued_ns: int, times: ExecutionTimes
    ) -> None:
        """Count requests of one execution that succeeded.

        Args:
            request_count: How many.
            inference_count: Sum of their batch sizes.
            enqueued_ns: Sum of the instants they were received at.
            times: When they ran.
        """
        totals = self._totals
        totals.success_count += request_count
        totals.inference_count += inference_count
        totals.success_ns += request_count * times.end_ns - enqueued_ns
        totals.queue_ns += request_count * times.start_ns - enqueued_ns
        totals.compute_input_ns += request_count * (times.input_end_ns - times.start_ns)
        totals.compute_infer_ns += request_count * (times.output_start_ns - times.input_end_ns)
        totals.compute_output_ns += request_count * (times.end_ns - times.output_start_ns)

    def record_steps(
        self, inference_count: int, duration_ns: int, compute_ns: Sequence[int], wall_ms: int
    ) -> None:
        """Count a request of an ensemble that succeeded; it is executed by others, and not queued.

        Args:
            inference_count: Its batch size.
            duration_ns: From receipt to response.
            compute_ns: Input, inference and output, each summed over the steps.
            wall_ms: Now, milliseconds since the epoch.
        """
        totals = self._totals
        totals.last_inference_ms = wall_ms
        totals.execution_count += 1
        totals.success_count += 1
        totals.inference_count += inference_count
        totals.success_ns += duration_ns
        batch = totals.batches.setdefault(inference_count, BatchStatistics())
        batch.count += 1
        for target in (totals, batch):
            target.compute_input_ns += compute_ns[0]
            target.compute_infer_ns += compute_ns[1]
            target.compute_output_ns += compute_ns[2]

    def record_distribution(self, enqueue_ns: int, times: ExecutionTimes) -> None:
        """Note the latencies of one request that succeeded, if anyone wants them."""
        if self.distributions is not None:
            self.distributions.observe(
                (
                    times.end_ns - enqueue_ns,
                    times.start_ns - enqueue_ns,
                    times.input_end_ns - times.start_ns,
                    times.output_start_ns - times.input_end_ns,
                    times.end_ns - times.output_start_ns,
                )
            )

    def record_failure(self, reason: FailureReason, duration_ns: int) -> None:
        """Count one request that failed ``duration_ns`` after it was received."""
        self._totals.fail_count[reason] += 1
        self._totals.fail_ns += duration_ns

    def record_cache_hit(self, duration_ns: int, lookup_ns: int) -> None:
        """Count one request that the response cache answered ``duration_ns`` after it came."""
        totals = self._totals
        totals.success_count += 1
        totals.success_ns += duration_ns
        totals.cache_hit_count += 1
        totals.cache_hit_ns += lookup_ns

    def record_cache_miss(self, duration_ns: int) -> None:
        """Count one lookup in vain: its time and that of storing the answer."""
        totals = self._totals
        totals.cache_miss_count += 1
        totals.cache_miss_ns += duration_ns
        totals.success_ns += duration_ns

    def record_response(self, position: int, outcome: ResponseOutcome, duration_ns: int) -> None:
        """Count one response of a decoupled model.

        Args:
            position: Its place in the stream, from 0.
            outcome: What it is.
            duration_ns: Since the start of the execution.
        """
        responses = self._totals.responses
        position = min(position, LAST_RESPONSE_POSITION)
        row = responses.get(position)
        if row is None:
            row = responses[position] = ResponseStatistics()
        match outcome:
            case ResponseOutcome.SUCCESS:
                row.success_count += 1
                row.success_ns += duration_ns
            case ResponseOutcome.FAIL:
                row.fail_count += 1
                row.fail_ns += duration_ns
            case ResponseOutcome.EMPTY:
                row.empty_count += 1
                row.empty_ns += duration_ns

    def snapshot(self, pending_count: int) -> Snapshot:
        """Return a copy of the counters."""
        totals, distributions = self._totals, self.distributions
        totals.pending_count = pending_count
        if distributions is not None:
            totals.latencies = distributions.latencies()
            totals.bucket_counts = distributions.bucket_counts
            totals.first_response_ms = distributions.first_response_ms
        return merge((totals,))


def _add_counters(total: Snapshot, part: Snapshot) -> None:
    """Add what is simply summed; every other field has its own rule in `merge`."""
    total.inference_count += part.inference_count
    total.execution_count += part.execution_count
    total.success_count += part.success_count
    total.success_ns += part.success_ns
    total.fail_ns += part.fail_ns
    total.queue_ns += part.queue_ns
    total.compute_input_ns += part.compute_input_ns
    total.compute_infer_ns += part.compute_infer_ns
    total.compute_output_ns += part.compute_output_ns
    total.cache_hit_count += part.cache_hit_count
    total.cache_hit_ns += part.cache_hit_ns
    total.cache_miss_count += part.cache_miss_count
    total.cache_miss_ns += part.cache_miss_ns
    total.pending_count += part.pending_count
    total.first_response_ms += part.first_response_ms


def merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Add up the statistics of a model version's instances."""
    total = Snapshot(fail_count=dict.fromkeys(FailureReason, 0))
    for snapshot in snapshots:
        _add_counters(total, snapshot)
        total.last_inference_ms = max(total.last_inference_ms, snapshot.last_inference_ms)
        for reason, count in snapshot.fail_count.items():
            total.fail_count[reason] = total.fail_count.get(reason, 0) + count
        for size, batch in snapshot.batches.items():
            total.batches.setdefault(size, BatchStatistics()).add(batch)
        for position, response in snapshot.responses.items():
            total.responses.setdefault(position, ResponseStatistics()).add(response)
        _merge_distributions(total, snapshot)
        if snapshot.custom:
            total.custom += snapshot.custom
    return total


def _merge_distributions(total: Snapshot, part: Snapshot) -> None:
    if part.latencies and not total.latencies:
        total.latencies = [{} for _ in part.latencies]
    for classes, more in zip(total.latencies, part.latencies, strict=False):
        add_classes(classes, more)
    counts = itertools.zip_longest(total.bucket_counts, part.bucket_counts, fillvalue=0)
    total.bucket_counts = [ours + theirs for ours, theirs in counts]
