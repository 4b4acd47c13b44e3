# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What each fault may cost; docs/chaos.md has the same table. What no row allows is a breach."""

from dataclasses import dataclass
from typing import Final

from tests.chaos.records import SEQUENCE, SHARED, STREAM

# What is tied to the instance that has it: it cannot be sent to another one.
TIED: Final = frozenset({SEQUENCE, STREAM, SHARED})
# An instance without a sign of life is given up after this time, by default.
HEARTBEAT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Cost:
    """A row: what clients may see of a fault, from its beginning until ``after_s`` past its end.

    Attributes:
        tied: Requests that are tied to an instance may end with UNAVAILABLE, each sequence once.
        connections: The connections of the process that it hit may end, with the requests on them.
        node: The connections to the node may end, and new ones may be refused.
        control: Loads and changes of the number of instances may fail.
        after_s: How long after its end.
        delay_s: How much longer than usual an answer may take.
        why: The reason, for the page.
    """

    tied: bool = False
    connections: bool = False
    node: bool = False
    control: bool = False
    after_s: float = 5.0
    delay_s: float = 0.0
    why: str = ""


# An answer takes no longer than this when nothing else is allowed: machines of two cores under load
# start processes meanwhile.
USUAL_S: Final = 15.0
# A node that is lost is noticed by Ray's health checks, then its instances start elsewhere.
_NODE_S: Final = 60.0

COSTS: Final[dict[str, Cost]] = {
    "kill-instance": Cost(tied=True, why="other requests are sent to another instance, once"),
    "stop-instance": Cost(
        tied=True,
        after_s=2 * HEARTBEAT_TIMEOUT_S,
        delay_s=HEARTBEAT_TIMEOUT_S + 5.0,
        why="it is given up after the heartbeat, or continues before",
    ),
    "kill-ingress": Cost(connections=True, after_s=15.0, why="a connection ends with its process"),
    "stop-ingress": Cost(
        delay_s=HEARTBEAT_TIMEOUT_S + 5.0,
        why="it continues before Serve gives it up; its queues are taken over after the heartbeat",
    ),
    "kill-controller": Cost(
        control=True, after_s=30.0, why="no inference waits for the controller"
    ),
    "stop-controller": Cost(delay_s=0.0, why="loads wait until it continues"),
    "kill-serve-controller": Cost(why="no request passes Serve"),
    "kill-gcs": Cost(
        control=True, after_s=60.0, why="the data plane continues with its last table"
    ),
    "lose-node": Cost(
        tied=True,
        connections=True,
        node=True,
        control=True,
        after_s=_NODE_S,
        delay_s=HEARTBEAT_TIMEOUT_S + 5.0,
        why="its ingresses and instances end with it",
    ),
    "partition": Cost(
        tied=True,
        control=True,
        after_s=2 * HEARTBEAT_TIMEOUT_S,
        delay_s=2 * HEARTBEAT_TIMEOUT_S,
        why="lanes to the other node wait, and are given up after the heartbeat",
    ),
    "slow-network": Cost(delay_s=20.0, why="frames between the nodes wait"),
    "slow-disk": Cost(delay_s=5.0, why="loads take longer"),
    "full-disk": Cost(
        control=True, why="a load whose files find no room fails and changes nothing"
    ),
    "step-clock": Cost(why="Serve's controller, through which none passes, is restarted"),
    "reload": Cost(why="new instances serve before the old ones end"),
    "scale": Cost(why="the same"),
}

# What tells that a sequence was lost with its instance: the instance's ends, and that nobody who is
# left knows the sequence.
LOSS_CODES: Final = frozenset({"UNAVAILABLE", "INVALID_ARGUMENT"})
