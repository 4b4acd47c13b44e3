# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance's dealings with its pool's queue (`deployments.lane.batches`).

Until a holder adopts it, an instance is on its own. From then on single requests are bounced, and
so is what its own queue held and it had not begun.

The holder is told of the end of each batch that it has formed, and of those that it was told to
wait for when it came: what the holder before it had formed, and what the instance had begun by
itself. When a holder is lost what it has formed is executed all the same; then the instance waits
for the next one.
"""

from backends.api.model_config import ModelConfig
from deployments.instance.executor import Executor
from deployments.instance.pushed_batches import PushedBatches, WorkBatch
from deployments.instance.work import ExecutedModel, bounce
from deployments.lane.batches import Adopted, BatchPart, Done, Forget, Holder
from deployments.lane.frames import FrameError
from deployments.lane.server import ServerRequest
from deployments.lane.server_pool import PoolServer


class Adoption:
    """Implements `deployments.lane.server_pool.PoolHandler`.

    Everything happens on the thread that turns the reactor.

    Args:
        config: The model's complete config.
        executor: What is adopted.
    """

    __slots__ = ("_config", "_epoch", "_executor", "_lane", "_model", "_pushed")

    def __init__(self, config: ModelConfig, executor: Executor) -> None:
        self._config = config
        self._executor = executor
        # What may share a batch is asked where batches are formed.
        self._model: ExecutedModel = executor.model.without_signature()
        self._pushed: PushedBatches | None = None
        self._lane: PoolServer | None = None
        self._epoch = 0

    def adopt(self, lane: PoolServer, message: Holder) -> Adopted:
        """Serve a holder from now on."""
        executor = self._executor
        pushed = self._pushed
        if pushed is None:
            pushed = self._pushed = self._begin()
        self._lane = lane
        self._epoch = message.epoch
        with executor.mutex:
            batch_count = pushed.adopted()
            running = pushed.coming
        # Also sets its alarm anew: batches wait for less long.
        executor.queue((), lambda: True)
        return Adopted(batch_count, running, is_limited=executor.grant is not None)

    def _begin(self) -> PushedBatches:
        executor = self._executor
        executor.outbox.report = self._report
        pushed = PushedBatches(
            self._config, executor.outbox, executor.feeder, executor.grant, executor.clock_ns
        )
        with executor.mutex:
            queued = executor.replace_scheduler(pushed)
            for work in queued:
                work.is_closed = True
        now_ns = executor.clock_ns()
        for work in queued:
            work.lane.bounce(now_ns - work.enqueue_ns)
            # Its lane knows no more of it; that it has ended is all that is left to note.
            executor.outbox.deliver(work, None, final=True)
        return pushed

    def received_part(self, part: BatchPart, requests: list[ServerRequest]) -> None:
        """Take a part of a batch; its requests get their outcomes later.

        For an instance that nobody has adopted they are single requests, which it bounces. So are
        requests of sequences that an earlier holder has granted and the present one cannot know of.

        Raises:
            FrameError: The slots are not those of a batch of this model.
        """
        pushed, executor = self._pushed, self._executor
        if pushed is None:
            bounce(requests)
            return
        if not pushed.fits(part):
            raise FrameError(
                f"part of a batch for model '{self._config.name}' with slots {part.slots}"
            )
        if part.epoch < self._epoch:
            flags = [each.request.flags for each in requests]
            if not pushed.is_foreseen(part, flags):
                bounce(requests)
                return
        now_ns = executor.clock_ns()
        queued_ns = part.queued_ns or [now_ns] * len(requests)
        if part.waited_ns:
            queued_ns = [max(1, now_ns - waited_ns) for waited_ns in part.waited_ns]
        make, model = executor.make_work, self._model
        works = [
            make(model, request, min(each_ns or now_ns, now_ns))
            for request, each_ns in zip(requests, queued_ns, strict=True)
        ]
        executor.queue(works, lambda: pushed.add(part, works, now_ns))

    def forget(self, message: Forget) -> None:
        """Wait no longer for requests that will not come."""
        pushed = self._pushed
        if pushed is not None:
            self._executor.queue((), lambda: pushed.forget(message))

    def asked(self) -> None:
        """Get the grant; the holder hears of it when it is there."""
        if self._pushed is not None:
            with self._executor.mutex:
                is_granted = self._pushed.grants.ask()
            self._tell_granted(is_granted=is_granted)

    def declined(self) -> None:
        """Give the grant back, or do without it."""
        if self._pushed is not None:
            with self._executor.mutex:
                self._pushed.grants.decline()

    def granted(self) -> None:
        """Learn that the rate limiter lets the instance execute."""
        if self._pushed is not None:
            with self._executor.mutex:
                is_awaited = self._pushed.grants.granted()
            self._tell_granted(is_granted=is_awaited)
        self._executor.look_again()

    def holder_lost(self) -> None:
        """Go on with what is there."""
        self._lane = None
        self.declined()

    def _tell_granted(self, *, is_granted: bool) -> None:
        if is_granted and self._lane is not None:
            self._lane.send_granted()

    def _report(self, batch: WorkBatch) -> None:
        """Tell the holder that a batch is done, if it waits for that."""
        if self._lane is None or batch.is_late:
            return
        if batch.is_counted or batch.epoch >= self._epoch:
            self._lane.send_done(
                Done(batch.epoch, batch.number, batch.execution_ns, batch.rescheduled, batch.ended)
            )
