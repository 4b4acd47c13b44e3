# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta replay``."""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.commands.replay.records import Summary, Verdict, is_sendable, lanes
from cluster.commands.replay.sending import Sender, Target, open_channel
from deployments.captures.records import CaptureRecord, from_line
from deployments.captures.rules import matches
from deployments.rollouts.comparing import Tolerance

_PERCENTILES: Final = (50, 99)
_US_PER_MS: Final = 1e3


def main(arguments: Sequence[str]) -> int:
    """Run ``manta replay``; returns 0, 1 when an answer differs or fails, 2 for a wrong call."""
    given = _parser().parse_args(arguments)
    try:
        records = list(_chosen(read_records(given.captures), given))
        if not records:
            raise InvalidArgumentError("no record of these captures is to be sent again")
        credentials = None
        if given.root_cert is not None:
            credentials = grpc.ssl_channel_credentials(given.root_cert.read_bytes())
        with open_channel(given.url, credentials) as channel:
            summary = _replay(records, channel, given)
    except (TritonError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except grpc.RpcError as error:
        print(f"error: {given.url}: {error.code().name}: {error.details()}", file=sys.stderr)
        return 2
    print(json.dumps(_document(summary), indent=2) if given.json else "\n".join(_lines(summary)))
    return 0 if summary.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("manta replay", description=__doc__)
    parser.add_argument("captures", nargs="+", help="files or folders of captures, or URLs of them")
    parser.add_argument("-u", "--url", default="localhost:8001", help="gRPC port of the server")
    parser.add_argument("-m", "--model", default="", help="send to this model, not to each own")
    parser.add_argument("-x", "--model-version", default="", help="send to this version")
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of captured models")
    parser.add_argument("--limit", type=int, default=0, help="send so many at most")
    parser.add_argument("--concurrency", type=int, default=4, help="requests at a time")
    parser.add_argument("--rate", type=float, default=0.0, help="requests per second; 0: at once")
    parser.add_argument("--rtol", type=float, default=1e-5, help="relative tolerance of floats")
    parser.add_argument("--atol", type=float, default=1e-6, help="absolute tolerance of floats")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each request")
    parser.add_argument("-H", "--header", action="append", default=[], help="NAME:VALUE, metadata")
    parser.add_argument("--root-cert", type=Path, help="use TLS and check the server's certificate")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def read_records(places: Iterable[str]) -> Iterator[CaptureRecord]:
    """Read all records of files, of folders with files, and of those at URLs.

    Raises:
        InvalidArgumentError: A line is no record; the message names file and line.
        OSError: A place cannot be read.
    """
    for place in places:
        for name, content in _files(place):
            for number, line in enumerate(content.splitlines(), 1):
                try:
                    yield from_line(line)
                except InvalidArgumentError as error:
                    raise InvalidArgumentError(f"{name}, line {number}: {error.message}") from None


def _files(place: str) -> Iterator[tuple[str, bytes]]:
    if "://" in place:
        import fsspec  # noqa: PLC0415 - it takes long to import

        filesystem, path = fsspec.core.url_to_fs(place)
        names = filesystem.find(path) if filesystem.isdir(path) else [path]
        for name in sorted(names):
            yield name, filesystem.cat_file(name)
        return
    path = Path(place)
    # What a server is writing ends in .part; its last line may be unfinished.
    found = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    for file in found:
        yield str(file), file.read_bytes()


def _chosen(records: Iterable[CaptureRecord], given: argparse.Namespace) -> Iterator[CaptureRecord]:
    count = 0
    for record in records:
        if given.limit and count >= given.limit:
            return
        if matches(record.model, given.only):
            count += 1
            yield record


def _replay(
    records: list[CaptureRecord], channel: grpc.Channel, given: argparse.Namespace
) -> Summary:
    tolerance = Tolerance(absolute=given.atol, relative=given.rtol)
    metadata = [_header(each) for each in given.header]
    sender = Sender(channel, Target(given.model, given.model_version, metadata, given.timeout))
    summary, lock = Summary(), threading.Lock()
    pace = _Pace(given.rate)

    def run(lane: list[CaptureRecord]) -> None:
        for record in lane:
            pace.wait()
            replayed = sender.send(record)
            with lock:
                summary.add(replayed, tolerance)

    sendable = [record for record in records if is_sendable(record)]
    summary.counts[Verdict.NOT_SENT] = len(records) - len(sendable)
    with ThreadPoolExecutor(max(given.concurrency, 1), "manta-replay") as pool:
        list(pool.map(run, lanes(sendable, max(given.concurrency, 1))))
    return summary


class _Pace:
    """Lets requests go at a rate, whoever sends them."""

    def __init__(self, rate: float) -> None:
        self._gap_s = 1 / rate if rate > 0 else 0.0
        self._next_s = time.monotonic()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for the next turn."""
        if not self._gap_s:
            return
        with self._lock:
            due_s = max(self._next_s, time.monotonic())
            self._next_s = due_s + self._gap_s
        time.sleep(max(due_s - time.monotonic(), 0.0))


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise InvalidArgumentError(f"--header: got '{text}', expected NAME:VALUE")
    return name.strip().lower(), value.strip()


def _document(summary: Summary) -> dict[str, Any]:
    return {
        "counts": {str(verdict): summary.counts[verdict] for verdict in Verdict},
        "latency_us": {
            name: {f"p{each}": _percentile(values, each) for each in _PERCENTILES}
            for name, values in (("then", summary.then_us), ("now", summary.now_us))
        },
        "reasons": [
            {"id": record_id, "verdict": str(verdict), "reason": reason}
            for record_id, verdict, reason in summary.reasons
        ],
    }


def _lines(summary: Summary) -> Iterator[str]:
    for verdict in Verdict:
        yield f"{verdict:<13}{summary.counts[verdict]:>8}"
    for name, values in (("then", summary.then_us), ("now", summary.now_us)):
        if values:
            shown = ", ".join(
                f"p{each} {_percentile(values, each) / _US_PER_MS:.2f} ms" for each in _PERCENTILES
            )
            yield f"latency {name}: {shown}"
    for record_id, verdict, reason in summary.reasons:
        yield f"{record_id} {verdict}: {reason}"


def _percentile(values: Sequence[int], percentile: int) -> int:
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) * percentile // 100, len(ordered) - 1)]
