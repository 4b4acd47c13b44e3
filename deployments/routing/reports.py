# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of what runs in routers: each tells the controller when the controller asks.

An ensemble runs in whoever called it and a response cache answers there, so their counters lie in
as many processes as there are routers; those of a pool's queue lie in its holder. The process that
is asked for them has the controller collect them: every router's poll of the table ends, and its
next one carries a report.
"""

import logging
from collections.abc import Iterable

import msgspec

from deployments.metrics.counters import Snapshot
from deployments.routing.router import Router

_log = logging.getLogger(__name__)


class RouterReport(msgspec.Struct, array_like=True):
    """What one router counted.

    Attributes:
        node_id: Ray node it is on.
        rows: Key of the model, version and counters.
    """

    node_id: str
    rows: list[tuple[str, int, Snapshot]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RouterReport)


def make_report(router: Router) -> bytes:
    """Return the report of a router; empty when nothing was counted there."""
    rows = [
        (model.key, model.version, counters)
        for model in router.models.all()
        for counters in model.own_statistics()
    ]
    rows += router.queue_counters()
    return _encoder.encode(RouterReport(router.node_id, rows)) if rows else b""


def counters_by_model(
    reports: Iterable[bytes], node_id: str = ""
) -> dict[tuple[str, int], list[Snapshot]]:
    """Return the counters in all reports, by model and version number.

    Args:
        reports: From `make_report`; those that cannot be read are left out.
        node_id: Only routers of this node; empty for all.
    """
    found: dict[tuple[str, int], list[Snapshot]] = {}
    for data in reports:
        if not data:
            continue
        try:
            report = _decoder.decode(data)
        except msgspec.MsgspecError as error:
            _log.warning("the report of a router cannot be read: %s", error)
            continue
        if not node_id or report.node_id == node_id:
            for name, number, snapshot in report.rows:
                found.setdefault((name, number), []).append(snapshot)
    return found
