# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells an instance that computes long from one that does not turn any more."""

from typing import Final

from deployments.lane.connection import LaneConnection
from deployments.lane.frames import PING

# How many periods without a byte an instance that owes an answer is given.
SILENT_PERIODS: Final = 4


class Silence:
    """How long the instance at the other end of a lane has been silent.

    Periods are counted rather than timed: of a process that was stopped itself only one passes.

    Args:
        connection: The router's end, which counts from zero again with each read.
    """

    __slots__ = ("_connection", "_unsent_bytes")

    def __init__(self, connection: LaneConnection) -> None:
        self._connection = connection
        self._unsent_bytes = 0

    def pass_period(self, *, is_owed: bool) -> bool:
        """Note that a period of the router's check has passed; a silent instance gets a PING.

        Returns:
            Whether it owes an answer, as the caller says, and has given no sign of life for
            `SILENT_PERIODS` whole periods.
        """
        connection = self._connection
        if connection.is_lost or not is_owed:
            connection.silent_periods = 0
            return False
        unsent_bytes = connection.transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            # It reads, perhaps gigabytes: what it says next may wait for their end.
            connection.silent_periods = 0
        self._unsent_bytes = unsent_bytes
        # The period in which something came last is not a silent one.
        silent_periods = connection.silent_periods
        connection.silent_periods += 1
        if silent_periods:
            connection.send(PING, 0)
        return silent_periods >= SILENT_PERIODS
