# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What routers ask of an instance over its lanes: inference, and the calls of the control plane."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import msgspec

from backends.api.backend import ModelInstance
from backends.api.errors import UnsupportedError
from backends.api.model_config import ModelConfig
from backends.config.autoscaling import scales_by_latency
from deployments.instance.adoption import Adoption
from deployments.instance.executor import Executor
from deployments.instance.readiness import Readiness
from deployments.instance.work import bounce
from deployments.lane.batches import Adopted, Holder
from deployments.lane.server import ServerRequest
from deployments.lane.server_pool import PoolServer
from deployments.metrics import counters as statistics
from deployments.metrics.distributions import Distributions, bounds_ms
from deployments.settings.log_lines import set_up_logging
from deployments.settings.metrics_settings import MetricsSettings
from deployments.settings.server_settings import InstanceSettings, LogSettings
from deployments.shared_memory.objects import RegionMemory

_YES: Final = msgspec.msgpack.encode(True)
_NO: Final = msgspec.msgpack.encode(False)


class InstanceLanes:
    """Implements `deployments.lane.server.LaneHandler`.

    Args:
        config: The model's complete config.
        executor: Takes the requests.
        instance: The loaded instance.
        memory: Access to clients' shared memory.
        readiness: Asks the model whether it is ready.

    Attributes:
        adoption: What the instance has to do with its pool's queue.
    """

    def __init__(
        self,
        config: ModelConfig,
        executor: Executor,
        instance: ModelInstance,
        memory: RegionMemory,
        readiness: Readiness,
    ) -> None:
        self._config = config
        self._executor = executor
        self._instance = instance
        self._memory = memory
        self._readiness = readiness
        self.adoption = adoption = Adoption(config, executor)
        # Takes all requests of one read.
        self.received: Callable[[list[ServerRequest]], None] = executor.received
        self.received_part = adoption.received_part
        self.forget = adoption.forget
        self.asked = adoption.asked
        self.declined = adoption.declined
        self.holder_lost = adoption.holder_lost
        self._metrics = MetricsSettings()
        self._scales_by_latency = scales_by_latency(config)
        if self._scales_by_latency:
            executor.observe(Distributions(has_summaries=True, bounds=None))
        # As they were last set up here; missing until a router has told of them.
        self._log_settings: LogSettings | None = None
        self._settings_version = 0

    def adopt(self, lane: PoolServer, message: Holder) -> Adopted:
        """Execute batches only from now on, and tell this holder of them."""
        self.received = bounce
        return self.adoption.adopt(lane, message)

    def cancelled(self, request: ServerRequest) -> None:
        """Learn that an unfinished request was cancelled, or that its router is gone."""
        del request
        self._executor.look_again()

    def call(self, method: str, payload: bytes) -> "bytes | Future[bytes]":
        """Answer ``statistics`` (an encoded snapshot) or ``health``, or take on ``settings``.

        ``knows_sequence`` tells whether the sequence of an id goes on here.

        Raises:
            UnsupportedError: There is no such method.
        """
        if method == "statistics":
            snapshot = self._executor.statistics()
            snapshot.custom = self._instance.custom_metrics()
            return statistics.encode(snapshot)
        if method == "health":
            return self._encoded_readiness()
        if method == "knows_sequence":
            correlation_id = msgspec.msgpack.decode(payload, type=int | str)
            return msgspec.msgpack.encode(self._executor.knows(correlation_id))
        if method == "settings":
            self._take_on(msgspec.msgpack.decode(payload, type=InstanceSettings))
            return b""
        raise UnsupportedError(f"instances know no lane call '{method}'")

    def _encoded_readiness(self) -> "Future[bytes]":
        encoded: Future[bytes] = Future()

        def encode(asked: "Future[bool]") -> None:
            encoded.set_result(_YES if asked.result() else _NO)

        self._readiness.ask().add_done_callback(encode)
        return encoded

    def _take_on(self, settings: InstanceSettings) -> None:
        """Follow settings, unless a router with a newer table has told of newer ones."""
        if settings.version < self._settings_version:
            return
        self._settings_version = settings.version
        if settings.log != self._log_settings:
            self._log_settings = settings.log
            set_up_logging(settings.log)
        self._memory.forget_others(settings.region_sources)
        self._observe(settings.metrics)

    def _observe(self, metrics: MetricsSettings) -> None:
        if metrics == self._metrics:
            return
        self._metrics = metrics
        distributions = None
        has_summaries = metrics.has_summaries or self._scales_by_latency
        if has_summaries or metrics.has_histograms:
            bounds = bounds_ms(self._config) if metrics.has_histograms else None
            distributions = Distributions(has_summaries=has_summaries, bounds=bounds)
        self._executor.observe(distributions)
