# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Gives requests of sequences what their model is fed besides: control inputs and states, by slot.

A queue decides which requests a batch has, and in which slots. The feeder stands where the model
executes. It knows of each slot what its sequence carries from request to request, and begins anew
with each START.

Triton: core/src/sequence_batch_scheduler/sequence_batch_scheduler.cc SetControlTensors,
UpdateImplicitState; core/src/sequence_state.cc SetNullSequenceStates @73aad7c
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from backends.api.backend import ExecuteRequest
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
)
from deployments.scheduling.pool_scheduler import CorrelationId
from deployments.scheduling.sequence_controls import (
    SequenceControls,
    SequenceStates,
    StateRules,
    null_tensor,
)


class FedItem(ExecuteRequest, Protocol):
    """A request that is fed.

    Attributes:
        states: What its sequence carries along, for the response to update; None when nothing.
        is_rescheduled: Whether it is to be executed once more.
    """

    states: SequenceStates | None
    is_rescheduled: bool


FedT = TypeVar("FedT", bound=FedItem)


class Group(NamedTuple, Generic[FedT]):
    """Requests that can be executed together, and the slot of each."""

    items: list[FedT]
    slots: Sequence[int]


class NullRequest:
    """Fills the row of a slot that has nothing to run; its answer goes nowhere."""

    __slots__ = ("is_cancelled", "request")

    def __init__(self, like: InferenceRequest, input_count: int) -> None:
        inputs = [null_tensor(tensor) for tensor in like.inputs[:input_count]]
        self.request = InferenceRequest(
            like.model_name, like.model_version, inputs=inputs, outputs=like.outputs
        )
        self.is_cancelled = False

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Take a response nobody waits for."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error nobody waits for."""

    def reschedule(self) -> None:
        """Take a wish that means nothing here."""


class SequenceFeeder(Generic[FedT]):
    """What one instance knows of the sequences in its slots.

    Belongs to whoever executes: for each batch, in this order, `groups`, then `feed` and an
    execution for each group, then `executed`.

    Args:
        config: The model's config, with a sequence batcher.
        states: Its implicit states; None when it has none.

    Attributes:
        running: By slot, the sequences that were begun and not ended.
    """

    def __init__(self, config: ModelConfig, states: StateRules | None) -> None:
        batching = config.sequence_batching
        self.running: dict[int, CorrelationId] = {}
        self._has_rows = batching is not None and batching.strategy != "oldest"
        self._is_iterative = batching is not None and batching.iterative
        self._controls = SequenceControls(config)
        self._rules = states
        self._states: dict[int, SequenceStates] = {}
        # Inputs added to each request, for one that is executed again to lose.
        self._fed_count = self._controls.count + (0 if states is None else len(states.initial))

    def groups(self, items: list[FedT], slots: Sequence[int]) -> list[Group[FedT]]:
        """Split a batch into those that can be executed together: states of equal shapes.

        Args:
            items: Requests of a batch.
            slots: The slot of each.
        """
        rules = self._rules
        if rules is None or not rules.is_variable or len(items) == 1:
            return [Group(items, slots)]
        by_shapes: dict[object, tuple[list[FedT], list[int]]] = {}
        for item, slot in zip(items, slots, strict=True):
            states = self._states.get(slot)
            is_start = states is None or item.request.flags & SEQUENCE_START
            shapes = rules.initial_shapes if is_start or states is None else states.shapes
            group = by_shapes.setdefault(shapes, ([], []))
            group[0].append(item)
            group[1].append(slot)
        return [Group(*group) for group in by_shapes.values()]

    def feed(
        self, items: Sequence[FedT], slots: Sequence[int], row_count: int = 0
    ) -> list[ExecuteRequest] | None:
        """Give requests their control inputs and states, before they are executed.

        Args:
            items: Requests that can be executed together.
            slots: The slot of each.
            row_count: How many rows the batch has at least, where each slot has its row.

        Returns:
            The rows of the batch, where these are not just the requests as they are.
        """
        for item, slot in zip(items, slots, strict=True):
            self._feed(item, slot)
        if not self._has_rows:
            return None
        row_count = max(row_count, max(slots) + 1)
        if row_count == 1 or (row_count == len(items) and list(slots) == list(range(row_count))):
            return None
        first, first_slot = items[0], slots[0]
        rows: dict[int, ExecuteRequest] = dict(zip(slots, items, strict=True))
        return [rows.get(row) or self._null(first, first_slot) for row in range(row_count)]

    def take_off(self, item: FedT) -> None:
        """Take from a request what it was fed: it is to be executed once more."""
        request = item.request
        request.flags = 0
        del request.inputs[len(request.inputs) - self._fed_count :]

    def executed(self, items: Sequence[FedT], slots: Sequence[int]) -> None:
        """Learn that requests were executed; those to be executed once more are made ready.

        Args:
            items: Requests that were fed; ``is_rescheduled`` says which of them go on.
            slots: The slot of each.
        """
        if not self._is_iterative:
            return
        for item, slot in zip(items, slots, strict=True):
            if item.is_rescheduled:
                self.take_off(item)
                self.running[slot] = item.request.correlation_id
            else:
                # The queue ends such a sequence without an END when nothing more of it is there.
                self.running.pop(slot, None)

    def forget(self, slot: int) -> None:
        """Forget the sequence in a slot."""
        self.running.pop(slot, None)
        self._states.pop(slot, None)

    def _feed(self, item: FedT, slot: int) -> None:
        request = item.request
        self._controls.add(request)
        if self._rules is not None:
            states = self._states.get(slot)
            if states is None or request.flags & SEQUENCE_START:
                # A new one: a late response of the slot's last sequence keeps the old.
                states = self._states[slot] = SequenceStates(self._rules)
            states.add(request)
            item.states = states
        if request.flags & SEQUENCE_END:
            self.running.pop(slot, None)
        else:
            self.running[slot] = request.correlation_id

    def _null(self, like: FedT, slot: int) -> NullRequest:
        request = like.request
        null = NullRequest(request, len(request.inputs) - self._fed_count)
        self._controls.add_not_ready(null.request)
        if self._rules is not None:
            self._states[slot].add_null(null.request)
        return null
