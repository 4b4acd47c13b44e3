# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `ModelLifecycle` keeps of a model beside its record: what serves, and what is being done."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.models.in_service import displace, resize
from cluster.models.operation import Kind, Meeting, Operation, Work, meeting
from cluster.models.override import NO_OVERRIDE, Override
from cluster.models.versions import ModelVersions


@dataclass(slots=True, eq=False)
class OperatedModel:
    """A model, and the operations on its versions.

    Attributes:
        versions: What serves.
        followed: Has the end of the lifecycle wait for a task.
        override: What it was last asked to be loaded with.
        kept_override: What it was last loaded with.
        operations: What runs and what waits for its turn, in the order in which it arrived.
    """

    versions: ModelVersions
    followed: Callable[[Work], Work]
    override: Override = NO_OVERRIDE
    kept_override: Override = NO_OVERRIDE
    operations: list[Operation] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether an operation is under way that does not just wait for room."""
        return any(not (each.is_over or each.is_pending) for each in self.operations)

    def find(self, kind: Kind) -> Operation | None:
        """Return an operation of a kind that runs."""
        running = (each for each in self.operations if each.has_begun and not each.is_over)
        return next((each for each in running if each.kind is kind), None)

    def meetings(self, kind: Kind, version: int | None = None) -> frozenset[Meeting]:
        """Return what would become of an operation that arrived now; empty when it could begin."""
        return frozenset(
            meeting(kind, each.kind, is_pending=each.is_pending)
            for each in self.operations
            if each.concerns(version) and not each.is_over
        )

    def may(self, kind: Kind, version: int) -> bool:
        """Whether something that is done at once may be done now.

        If not, what is pending and may be cancelled for it is: who asks again may then.
        """
        met = self.meetings(kind, version)
        if met == {Meeting.CANCEL}:
            self._cancel_for(kind, version, self.operations)
        return not met

    def may_displace(self, version: int) -> bool:
        """Whether nothing is under way on a version that may not be cancelled for that."""
        return Meeting.REFUSE not in self.meetings(Kind.DISPLACE, version)

    def displace(self, version: int, instances: Collection[str], by: str) -> Mapping[str, str]:
        """Have instances make room for one of a higher priority; see `cluster.models.in_service`.

        Nobody does while another operation on the version is under way, which may be cancelled for
        the next try.
        """
        may = self.may(Kind.DISPLACE, version)
        return displace(self.versions, version, instances, by) if may else {}

    async def resize(self, version: int, count: int) -> bool:
        """Give a ready version another count of instances; nobody waits for it.

        Returns:
            Whether the version has as many now, those that wait for room included; not when another
            operation was under way or has cancelled this one.

        Raises:
            TritonError: A new instance failed to load; what served before still serves.
        """
        operation = await self.run(
            Kind.RESIZE,
            version,
            f"resize to {count} instances",
            lambda operation: resize(self.versions, version, count, operation.block),
        )
        if operation is None:
            return False
        await operation.wait_ended()
        operation.result()
        return not operation.was_cancelled

    async def run(
        self,
        kind: Kind,
        version: int | None,
        name: str,
        work: Callable[[Operation], Coroutine[Any, Any, None]],
    ) -> Operation | None:
        """Do something when its turn comes; return when it has ended or waits for room.

        It is done to one version; to all, for None. Who waits here may be cancelled: what has begun
        goes on.

        Returns:
            The operation, perhaps one that was joined; None where it was refused.
        """
        met = self.meetings(kind, version)
        if Meeting.REFUSE in met:
            return None
        if Meeting.JOIN in met and (joined := self.find(kind)) is not None:
            await joined.wait_settled()
            return joined
        operation = Operation(kind, version)
        await self._wait_turn(operation)
        if not operation.is_cancelled:
            # A poll that finds the same files lets it go on.
            operation.candidate = None if kind is Kind.LOAD else self.versions.candidate
            task = self.followed(operation.begin(name, work(operation)))
            task.add_done_callback(lambda _: self.operations.remove(operation))
            await operation.wait_settled()
        return operation

    async def _wait_turn(self, operation: Operation) -> None:
        self.operations.append(operation)
        try:
            while not operation.is_cancelled:
                before = self.operations[: self.operations.index(operation)]
                version = operation.version
                ahead = [each for each in before if each.concerns(version) and not each.is_over]
                if not ahead:
                    return
                waits = [asyncio.ensure_future(each.changed.wait()) for each in (*ahead, operation)]
                # Not before: one that has not begun yet is over with its cancel.
                self._cancel_for(operation.kind, version, ahead)
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in waits:
                        each.cancel()
        except BaseException:
            operation.cancel()
            raise
        finally:
            if operation.is_cancelled:
                self.operations.remove(operation)

    @staticmethod
    def _cancel_for(kind: Kind, version: int | None, others: list[Operation]) -> None:
        for each in list(others):
            met = meeting(kind, each.kind, is_pending=each.is_pending)
            if each.concerns(version) and met is Meeting.CANCEL:
                each.cancel()
