# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of what runs in routers: each tells the controller with every poll of the table.

An ensemble runs in whoever called it and a response cache answers there, so their counters lie in
as many processes as there are routers. Who is asked for them makes the controller publish a table;
all routers take it and report.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from deployments.metrics.counters import Snapshot

if TYPE_CHECKING:
    from deployments.routing.router import Router


class RouterReport(msgspec.Struct, array_like=True):
    """What one router counted.

    Attributes:
        node_id: Ray node it is on.
        rows: Model, version and counters.
    """

    node_id: str
    rows: list[tuple[str, int, Snapshot]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RouterReport)


def make_report(router: "Router") -> bytes:
    """Return the report of a router; empty when it has run no ensemble and asked no cache."""
    rows = [
        (model.name, model.version, counters)
        for model in router.all_served()
        for counters in model.own_statistics()
    ]
    return _encoder.encode(RouterReport(router.node_id, rows)) if rows else b""


def counters_of(
    reports: Iterable[bytes], name: str, version: int, node_id: str = ""
) -> list[Snapshot]:
    """Return the counters of one model in all reports.

    Args:
        reports: From `make_report`.
        name: Model.
        version: Version number.
        node_id: Only routers of this node; empty for all.

    Raises:
        msgspec.DecodeError: A report is none.
    """
    decoded = [_decoder.decode(report) for report in reports if report]
    return [
        snapshot
        for report in decoded
        if not node_id or report.node_id == node_id
        for each, number, snapshot in report.rows
        if each == name and number == version
    ]
