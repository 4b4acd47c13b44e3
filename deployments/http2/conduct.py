# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How well a peer behaves: what it costs us without work coming of it.

Each frame that does no work costs credit, work gives credit back, and a peer without credit gets
ENHANCE_YOUR_CALM: frames that only make us answer or wake up (SETTINGS, PING, empty DATA, PRIORITY,
..) from one account; streams that end without a response, by the peer's reset ("rapid reset") or by
one that it provoked, from another.
"""

from collections import deque
from typing import Final

from deployments.http2.credit import Credit
from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.limits import Http2Limits

_REMEMBERED_RESETS: Final = 256


class Conduct:
    """The accounts of one connection's peer.

    Args:
        limits: Capacities and rates.
        now_ns: The clock.

    Attributes:
        now_ns: The clock, as of the last read.
        credit: Of frames that do no work.
        resets: Of streams that end without a response.
        reset_ids: The last streams that we reset: late frames for them are no mistake.
    """

    __slots__ = ("credit", "now_ns", "reset_ids", "resets")

    def __init__(self, limits: Http2Limits, now_ns: int) -> None:
        self.now_ns = now_ns
        self.credit = Credit(limits.nuisance_credit, limits.nuisance_credit_per_s, now_ns)
        self.resets = Credit(limits.reset_credit, limits.reset_credit_per_s, now_ns)
        self.reset_ids: deque[int] = deque(maxlen=_REMEMBERED_RESETS)

    def nuisance(self, what: str, cost: int = 1) -> None:
        """Charge a frame that does no work.

        Raises:
            ConnectionViolation: The peer has sent too many.
        """
        credit = self.credit
        if credit.left >= cost:
            credit.left -= cost
        elif not credit.spend(cost, self.now_ns):
            raise ConnectionViolation(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what} frames")

    def wasted_stream(self) -> None:
        """Charge a stream that ends without a response.

        Raises:
            ConnectionViolation: The peer has wasted too many.
        """
        if not self.resets.spend(1, self.now_ns):
            raise ConnectionViolation(ErrorCode.ENHANCE_YOUR_CALM, "too many reset streams")
