# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router knows of a model's instances on one node, and how long a request would wait there.

What waits, how long executions take and how many instances there are make the *expected wait*. Of a
queue that is held in the router's own process that is exact. Other nodes say it now and then; what
the router has sent since counts. What was said ages: after some executions the expected wait is
nearly that of a node of which nothing is known, and a node that has said nothing for long is not
trusted.

A pool of one has its queue in its instance and says nothing of it. Of it a router knows how many of
its own requests are there and how long answers took.

Pure: the clock is passed in.
"""

from typing import Final, Protocol

from deployments.pool_queue.messages import Load

# How long the messages of one request take, all together, to a node and back.
OWN_NODE_NS: Final = 200_000
OTHER_NODE_NS: Final = 800_000

# What is known of a node counts half after so many of its executions, but not before this time.
_HALF_LIFE_EXECUTIONS: Final = 2
_LEAST_HALF_LIFE_NS: Final = 20_000_000
# What a node said is nothing to go by any more.
_TRUST_NS: Final = 1_000_000_000
# An untrusted node gets one request, or one question, in this time.
_PROBE_NS: Final = 1_000_000_000
# A node that was probed has so long to say something.
_SILENCE_NS: Final = 200_000_000
# What a request has to save by going to another node: parts of the time on the way, and of its
# share of an execution, since that is about how far the expected wait is off.
_MARGIN: Final = 0.5
_UNCERTAIN: Final = 0.5
_UNKNOWN_EXECUTION_NS: Final = 10_000_000.0
# How much one answer counts in the mean.
_WEIGHT: Final = 0.125
# How fast the shortest answer is forgotten, by answer.
_FORGET_SHORTEST: Final = 1.0 / 1024


class LoadSource(Protocol):
    """A queue that is held in this process.

    Attributes:
        load: How much waits there now.
    """

    @property
    def load(self) -> Load: ...  # noqa: D102


class NodeView:
    """What a router knows of a model's instances on one node.

    Args:
        node: The node.
        is_own: Whether it is the router's own node.
        queue: The queue, when it is held in this process.
        is_single: Whether it is a pool of one, which says nothing of its load.

    Attributes:
        network_ns: How long the messages of one request take, to the node and back.
        load: How much waited there when that was said; of a pool of one, nothing.
        known_ns: When that was said, or when a pool of one answered last; None means never.
        sent_count: Requests this router has sent there since; 0 of a queue in this process.
        waiting_count: This router's requests there that have not been granted; of a pool of one,
            that have not been answered.
        asked_ns: When it was asked to tell of a free instance; None when it has told.
        probed_ns: When something was last sent there only to hear of it.
        request_ns: Of a pool of one, how long answers took, for each request that was there.
        shortest_ns: Of a pool of one, the shortest of that.
    """

    def __init__(
        self,
        node: str,
        *,
        is_own: bool = False,
        queue: LoadSource | None = None,
        is_single: bool = False,
    ) -> None:
        self.node = node
        self.is_own = is_own
        self.queue = queue
        self.is_single = is_single
        self.network_ns = OWN_NODE_NS if is_own else OTHER_NODE_NS
        self.load = Load("", 0)
        self.known_ns: int | None = None
        self.sent_count = 0
        self.waiting_count = 0
        self.asked_ns: int | None = None
        self.probed_ns: int | None = None
        self.request_ns = 0.0
        self.shortest_ns = 0.0

    def learned(self, load: Load, now_ns: int) -> None:
        """Take what the node says of its load."""
        self.load = load
        self.known_ns = now_ns
        self.sent_count = 0
        if load.is_free:
            self.asked_ns = None

    def promised(self, count: int = 1) -> None:
        """Count requests that will be sent there once they are withdrawn elsewhere."""
        if self.queue is None:
            self.sent_count += count

    def sent(self, *, was_promised: bool = False) -> None:
        """Count a request sent there."""
        self.waiting_count += 1
        if not was_promised:
            self.promised()

    def answered(self, answer_ns: int, now_ns: int) -> None:
        """Learn that a pool of one has answered a request, and how long that took."""
        request_ns = answer_ns / max(1, self.waiting_count)
        self.waiting_count -= 1
        self.sent_count = 0
        self.known_ns = now_ns
        if not self.request_ns:
            self.request_ns = self.shortest_ns = request_ns
            return
        self.request_ns += (request_ns - self.request_ns) * _WEIGHT
        longer_ns = self.shortest_ns * (1 + _FORGET_SHORTEST)
        self.shortest_ns = min(longer_ns, self.request_ns)

    def is_trusted(self, now_ns: int) -> bool:
        """Whether what is known of the node is recent enough to go by."""
        if self.queue is not None or self.is_single:
            # The lane to an instance that does not turn is broken off.
            return True
        if self.known_ns is None:
            return False
        trust_ns = max(_TRUST_NS, _HALF_LIFE_EXECUTIONS * self.load.execution_ns)
        return now_ns - self.known_ns < trust_ns

    @property
    def current_load(self) -> Load:
        """The node's load, as far as it is known."""
        return self.load if self.queue is None else self.queue.load

    @property
    def is_unheard(self) -> bool:
        """Whether the node has never said anything, and is to."""
        return self.queue is None and self.known_ns is None and not self.is_single

    @property
    def uncertain_ns(self) -> float:
        """How far the expected wait may be off: a part of a request's share of an execution."""
        load = self.current_load
        return load.execution_ns / max(1.0, load.batch_size) * _UNCERTAIN

    @property
    def travel_margin_ns(self) -> float:
        """How much a request has to save by going there for the way alone."""
        return self.network_ns * _MARGIN

    @property
    def margin_ns(self) -> float:
        """How much more than nothing a request has to save by going there."""
        return self.travel_margin_ns + self.uncertain_ns

    def is_probe_due(self, now_ns: int) -> bool:
        """Whether something may be sent there only to hear of the node."""
        return self.probed_ns is None or now_ns - self.probed_ns >= _PROBE_NS

    def is_question_due(self, now_ns: int) -> bool:
        """Whether the node is to be asked to tell when it has a free instance."""
        if self.is_single or self.queue is not None:
            return False
        return self.asked_ns is None or now_ns - self.asked_ns >= _PROBE_NS

    def is_silent(self, now_ns: int) -> bool:
        """Whether the node has said nothing although it was waited for."""
        if self.is_trusted(now_ns):
            return False
        return self.probed_ns is None or now_ns - self.probed_ns >= _SILENCE_NS

    def free_slot_count(self) -> int:
        """Return how many sequences may start there, as far as is known."""
        return self.current_load.free_slot_count - self.sent_count

    def free_count(self) -> int:
        """Return how many requests would be executed at once, as far as is known."""
        if self.is_single or (self.is_own and self.queue is None):
            # At the own node the next one is there in no time, so it is simply tried.
            return int(not self.waiting_count)
        load = self.current_load
        return load.free_count - load.waiting_count - self.sent_count

    def request_cost_ns(self) -> float:
        """Return by how much one more request makes the next one wait longer."""
        if self.is_single:
            return self.request_ns or _UNKNOWN_EXECUTION_NS
        load = self.current_load
        execution_ns = load.execution_ns or _UNKNOWN_EXECUTION_NS
        return execution_ns / (max(1, load.instance_count) * max(1.0, load.batch_size))


def expected_wait_ns(view: NodeView, now_ns: int) -> float:
    """Return how long one more request would wait: in a node's queue, and on the way and back."""
    if view.is_single:
        return view.network_ns + _single_wait_ns(view, now_ns)
    queue, known_ns = view.queue, view.known_ns
    load = view.current_load
    execution_ns = load.execution_ns or _UNKNOWN_EXECUTION_NS
    batch_size = max(1.0, load.batch_size)
    if queue is None and known_ns is None:
        return view.network_ns + execution_ns * (1 + view.waiting_count)
    ahead = load.waiting_count - load.free_count * batch_size + view.sent_count
    wait_ns = 0.0
    if ahead >= 0:
        wait_ns = execution_ns * (1 + ahead / batch_size) / max(1, load.instance_count)
    if queue is None and known_ns is not None:
        half_life_ns = max(_LEAST_HALF_LIFE_NS, _HALF_LIFE_EXECUTIONS * execution_ns)
        # As if nothing waited and all instances executed.
        unknown_ns = execution_ns / max(1, load.instance_count)
        wait_ns += (unknown_ns - wait_ns) * _doubt(now_ns - known_ns, half_life_ns)
    return view.network_ns + wait_ns


def _single_wait_ns(view: NodeView, now_ns: int) -> float:
    request_ns = view.request_ns or _UNKNOWN_EXECUTION_NS
    wait_ns = view.waiting_count * request_ns
    if view.known_ns is not None and view.request_ns:
        # What others have there shows as answers that took longer than the shortest.
        half_life_ns = max(_LEAST_HALF_LIFE_NS, _HALF_LIFE_EXECUTIONS * request_ns)
        doubt = _doubt(now_ns - view.known_ns, half_life_ns)
        wait_ns += (request_ns - view.shortest_ns) * (1 - doubt)
    return wait_ns


def _doubt(age_ns: int, half_life_ns: float) -> float:
    """Return how little is to be given on what was said: 0.0 is fresh, towards 1.0 unknown."""
    return age_ns / (age_ns + half_life_ns)
