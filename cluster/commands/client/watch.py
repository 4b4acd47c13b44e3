# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta top`` and ``manta events``: what a server does and has done."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from backends.api.errors import UnsupportedError
from cluster.commands.client.command_line import (
    AddArguments,
    argument,
    command,
    connect,
    print_json,
    print_table,
    table_that_changes,
)
from cluster.commands.client.connection import Server
from cluster.commands.client.models import counted, index, kept_events, told_instances

_INSTANCE: Final = "instance "
_NS_PER_MS: Final = 1e6

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """What a version has done in a period.

    Attributes:
        per_second: Requests that succeeded, a second.
        failed_per_second: Requests that failed, a second.
        latency_ms: Mean of a request; None where there was none.
        queue_ms: Mean of its wait; likewise.
        batch: Mean size of an execution; likewise.
    """

    model: str
    version: str
    per_second: float
    failed_per_second: float
    latency_ms: float | None
    queue_ms: float | None
    batch: float | None


def loads(before: Iterable[Row], after: Iterable[Row], period_s: float) -> Iterator[Load]:
    """Yield what versions have done between two answers of the statistics API, busiest first."""
    known = {(row["name"], row["version"]): row for row in before}
    found = []
    for row in after:
        past = known.get((row["name"], row["version"]))
        # Counters of a version that was loaded anew begin again.
        if past is None or past["execution_count"] > row["execution_count"]:
            past = {}
        success = _grown(row, past, "success")
        queue, failed = _grown(row, past, "queue"), _grown(row, past, "fail")
        executions = row["execution_count"] - past.get("execution_count", 0)
        inferences = row["inference_count"] - past.get("inference_count", 0)
        count = success["count"]
        found.append(
            Load(
                row["name"],
                row["version"],
                count / period_s,
                failed["count"] / period_s,
                success["ns"] / count / _NS_PER_MS if count else None,
                queue["ns"] / count / _NS_PER_MS if count else None,
                inferences / executions if executions else None,
            )
        )
    yield from sorted(found, key=lambda each: (-each.per_second, each.model, each.version))


def _grown(row: Row, past: Row, kind: str) -> Mapping[str, int]:
    now, then = row["inference_stats"].get(kind, {}), past.get("inference_stats", {}).get(kind, {})
    return {key: now.get(key, 0) - then.get(key, 0) for key in ("count", "ns")}


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _interval(default_s: float) -> AddArguments:
    return argument(
        "--interval", type=_positive, default=default_s, metavar="SECONDS", help="(%(default)s)"
    )


@command(
    "top",
    "Show requests, latencies and batches of models, until Ctrl-C.",
    _interval(2.0),
    argument("-n", "--count", type=int, default=0, help="how many times; 0: until Ctrl-C"),
)
def top(given: argparse.Namespace) -> None:
    """Run ``manta top``."""
    server = connect(given)
    before, then_s = _statistics(server), time.monotonic()
    titles = ("MODEL", "VERSION", "INSTANCES", "REQ/S", "FAILED/S", "LATENCY", "QUEUE", "BATCH")
    with nullcontext(print_table) if given.json else table_that_changes() as show:
        for _ in range(given.count) if given.count else iter(int, 1):
            time.sleep(given.interval)
            after, now_s = _statistics(server), time.monotonic()
            done = list(loads(before, after, now_s - then_s))
            before, then_s = after, now_s
            if given.json:
                print_json(list(map(asdict, done)))
            else:
                show(titles, _rows(done, told_instances(server)))
            sys.stdout.flush()


def _rows(done: Iterable[Load], there: Sequence[Row] | None) -> list[tuple[str, ...]]:
    return [
        (
            each.model,
            each.version,
            counted(there, each.model, each.version),
            f"{each.per_second:.1f}",
            f"{each.failed_per_second:.1f}",
            _shown(each.latency_ms, " ms"),
            _shown(each.queue_ms, " ms"),
            _shown(each.batch),
        )
        for each in done
    ]


def _statistics(server: Server) -> list[Row]:
    rows: list[Row] = server.get("/v2/models/stats")["model_stats"]
    return rows


def _shown(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.2f}{unit}"


@command(
    "events",
    "Print what has become of models and instances: the latest events that the server keeps, a line"
    " each.",
    argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C"),
    argument("-n", "--count", type=_count, metavar="LINES", help="as many of the latest; all"),
    _interval(1.0),
)
def events(given: argparse.Namespace) -> None:
    """Run ``manta events``."""
    server = connect(given)
    rows = kept_events(server)
    if rows is None:
        if not given.follow:
            raise UnsupportedError("this server keeps no events; give --follow to see what comes")
        _watch(server, given)
        return
    for row in rows if given.count is None else rows[len(rows) - given.count :]:
        _print_event(row, is_json=given.json)
    last = rows[-1]["id"] if rows else 0
    while given.follow:
        sys.stdout.flush()
        time.sleep(given.interval)
        for row in kept_events(server, last) or ():
            _print_event(row, is_json=given.json)
            last = row["id"]


def _print_event(row: Row, *, is_json: bool) -> None:
    if is_json:
        # A line each, as programs read what has no end.
        print(json.dumps(row))
        return
    what = row["instance"] or f"{row['model']} {row['version']}".strip() or "server"
    at = datetime.fromtimestamp(row["time"]).astimezone()
    print(f"{at:%Y-%m-%d %H:%M:%S}  {what}  {row['event']}  {row['message']}".rstrip())


def _watch(server: Server, given: argparse.Namespace) -> None:
    """Print what changes from now on at a server that keeps no events, until Ctrl-C."""
    before = _seen(server, {})
    while True:
        time.sleep(given.interval)
        after = _seen(server, before)
        for what, happened in changes(before, after):
            now = datetime.now().astimezone()
            if given.json:
                print(json.dumps({"time": now.isoformat(), "what": what, "happened": happened}))
            else:
                print(f"{now:%Y-%m-%d %H:%M:%S}  {what}  {happened}")
        sys.stdout.flush()
        before = after


def _seen(server: Server, before: Mapping[str, Row]) -> dict[str, Row]:
    """Return what there is, by what it is called; instances as before while they are not told."""
    found = {
        f"model {row['name']} {row.get('version', '')}".rstrip(): {
            "state": row.get("state", "not loaded"),
            "reason": row.get("reason", ""),
        }
        for row in index(server)
    }
    rows = told_instances(server)
    if rows is None:
        return found | {what: row for what, row in before.items() if what.startswith(_INSTANCE)}
    for row in rows:
        keys = ("state", "reason", "pid", "node", "restarts")
        found[f"{_INSTANCE}{row['name']}"] = {key: row[key] for key in keys}
    return found


def changes(before: Mapping[str, Row], after: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield what has changed between two looks: what it is, and what has happened to it."""
    for what in sorted(before.keys() | after.keys()):
        then, now = before.get(what), after.get(what)
        if then == now:
            continue
        if now is None:
            yield what, "is gone"
            continue
        parts = [now["state"] if then is None else f"{then['state']} -> {now['state']}"]
        if then is not None and then["state"] == now["state"]:
            parts = []
        for key in ("pid", "node", "restarts"):
            if now.get(key) and (then is None or then.get(key) != now[key]):
                parts.append(f"{key} {now[key]}")
        reason = " ".join(now["reason"].split())
        if reason and (then is None or then["reason"] != now["reason"]):
            parts.append(reason)
        if parts:
            yield what, ", ".join(parts)
