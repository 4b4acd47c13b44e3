# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance's dealings with the holder of its pool's queue (`deployments.lane.batches`).

The holder is told of each batch that it has formed, and of those that it was told to wait for when
it came: what the holder before it had formed, and what the instance had begun by itself. When a
holder is lost what it has formed is executed all the same; then the instance waits for the next.
"""

from deployments.instance.executor import Executor
from deployments.instance.pushed_batches import PushedBatches, WorkBatch
from deployments.lane.batches import Adopt, Adopted, Done, Forget
from deployments.lane.server_pool import HolderLane


class Adoption:
    """Implements `deployments.lane.server_pool.PoolHandler`, but for parts of batches.

    Everything happens on the thread that turns the reactor.

    Args:
        executor: What is adopted.
    """

    __slots__ = ("_epoch", "_executor", "_lane", "_pushed")

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._pushed: PushedBatches | None = None
        self._lane: HolderLane | None = None
        self._epoch = 0

    def adopt(self, lane: HolderLane, message: Adopt) -> Adopted:
        """Serve a holder from now on."""
        executor = self._executor
        self._pushed = pushed = executor.adopt(self._report)
        self._lane = lane
        self._epoch = message.epoch
        with executor.mutex:
            batch_count = pushed.adopted()
            running = pushed.running
        executor.look_again()
        return Adopted(batch_count, running, pushed.is_limited)

    def forget(self, message: Forget) -> None:
        """Wait no longer for requests that will not come."""
        self._executor.forget(message)

    def asked(self) -> None:
        """Get the grant; the holder hears of it when it is there."""
        if self._pushed is not None:
            with self._executor.mutex:
                is_granted = self._pushed.ask()
            self._tell_granted(is_granted=is_granted)

    def declined(self) -> None:
        """Give the grant back, or do without it."""
        if self._pushed is not None:
            with self._executor.mutex:
                self._pushed.decline()

    def holder_lost(self) -> None:
        """Go on with what is there."""
        self._lane = None
        self.declined()

    def granted(self) -> None:
        """Learn that the rate limiter lets the instance execute."""
        if self._pushed is not None:
            with self._executor.mutex:
                is_awaited = self._pushed.granted()
            self._tell_granted(is_granted=is_awaited)
        self._executor.look_again()

    def _tell_granted(self, *, is_granted: bool) -> None:
        if is_granted and self._lane is not None:
            self._lane.send_granted()

    def _report(self, batch: WorkBatch) -> None:
        """Tell the holder that a batch is done, if it waits for that."""
        if self._lane is None or batch.is_late:
            return
        if batch.is_counted or batch.epoch >= self._epoch:
            self._lane.send_done(
                Done(batch.epoch, batch.number, batch.execution_ns, batch.rescheduled)
            )
