# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta tune``."""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.commands.client.command_line import Parser, add_server, connect, make_parser, run
from manta_tools.tune import adjusting, journal
from manta_tools.tune.observing import (
    Counters,
    Slo,
    observe,
    read_counters,
    read_percentile_ms,
    read_slo,
)
from manta_tools.tune.policy import Tuner
from manta_tools.tune.records import Bounds, Decision, Observation
from manta_tools.tune.serving import ServedModel

_INTERRUPTED: Final = 130
# How long what was batched as before may still be under way.
_SETTLE_S: Final = 10.0


def main(arguments: Sequence[str]) -> int:
    """Run ``manta tune`` and return its exit code: 0, 1 for an error, 130 after Ctrl-C."""
    return run(_parser(), arguments, _tune)


def _tune(given: argparse.Namespace) -> int:
    server = connect(given)
    # Of the same caller.
    metrics = connect(argparse.Namespace(**{**vars(given), "url": given.metrics_url}))
    model = ServedModel(given.model, server, metrics)
    if given.revert is not None:
        model.load(journal.config_before(given.revert, given.model))
        print(f"model '{given.model}' is served as it was before {given.revert} began")
        return 0
    with ExitStack() as opened:
        file = opened.enter_context(given.journal.open("w")) if given.journal else None
        return _Session(model, given, file).run()


class _Session:
    """One run of the command."""

    def __init__(self, model: ServedModel, given: argparse.Namespace, file: TextIO | None) -> None:
        self._model, self._file = model, file
        self._slo: Slo = read_slo(_required(given.slo, "--slo"))
        bounds = Bounds(_range(given.delay_us, "--delay-us"), _range(given.batch, "--batch"))
        if bounds == Bounds():
            raise InvalidArgumentError(
                "nothing may be adjusted: give bounds, --delay-us LEAST:MOST or --batch LEAST:MOST"
            )
        self._period_s, self._periods = given.period, given.periods
        self._is_applied, self._is_restored = given.apply, given.restore
        if self._is_applied and file is None:
            raise InvalidArgumentError(
                "--apply takes a --journal FILE, from which --revert knows what to go back to"
            )
        self._before = model.config()
        adjusting.check_bounds(self._before, bounds)
        self._tuner = Tuner(self._slo.limit_ms, bounds, adjusting.read_settings(self._before))
        self._bounds = bounds
        self._is_stopped = threading.Event()

    def run(self) -> int:
        """Adjust until the periods are over, or until Ctrl-C."""
        if self._file is not None:
            journal.begun(self._file, _now(), self._model.name, self._before)
        earlier = signal.signal(signal.SIGINT, lambda *_: self._is_stopped.set())
        try:
            for _ in range(self._periods) if self._periods else iter(int, 1):
                if not self._period():
                    break
        finally:
            signal.signal(signal.SIGINT, earlier)
            self._restore()
        return _INTERRUPTED if self._is_stopped.is_set() else 0

    def _period(self) -> bool:
        """Watch one period and act on it; return whether to go on."""
        began_s, before = time.monotonic(), self._counters()
        if self._is_stopped.wait(self._period_s):
            return False
        config = self._model.config()
        if adjusting.read_settings(config) != self._tuner.settings and self._is_applied:
            self._tuner.adopt(adjusting.read_settings(config))
            settings = self._tuner.settings
            print(f"{_now()} somebody else has changed the config; going on from {settings}")
            return True
        seen = observe(
            before,
            self._counters(),
            time.monotonic() - began_s,
            adjusting.instance_count(config),
            self._percentile_ms(),
        )
        decision = self._tuner.decide(seen)
        self._tell(seen, decision)
        if decision.is_change:
            self._change(config, decision)
        return True

    def _change(self, config: adjusting.Config, decision: Decision) -> None:
        if not self._is_applied:
            # Nothing came of it, so there is nothing to judge.
            self._tuner.adopt(adjusting.read_settings(config))
            return
        try:
            self._model.load(adjusting.with_settings(config, decision.settings))
        except TritonError as error:
            print(f"{_now()} not changed: {error}", file=sys.stderr)
            self._tuner.adopt(adjusting.read_settings(self._model.config()))
            return
        # What is under way was batched as before.
        self._is_stopped.wait(min(self._period_s, _SETTLE_S))

    def _counters(self) -> Counters:
        return read_counters(self._model.statistics())

    def _percentile_ms(self) -> float | None:
        if not self._slo.quantile:
            return None
        return read_percentile_ms(self._model.metrics(), self._model.name, self._slo.quantile)

    def _tell(self, seen: Observation, decision: Decision) -> None:
        verb = "" if self._is_applied or not decision.is_change else "would change; "
        print(
            f"{_now()} {seen.rate:.1f} infer/sec, latency {seen.latency_ms:.2f} ms (queue"
            f" {seen.queue_ms:.2f} ms), batches of {seen.batch_size:.2f}, {100 * seen.busy:.0f} %"
            f" busy: {verb}{decision.reason}",
            flush=True,
        )
        if self._file is not None:
            journal.decided(self._file, _now(), seen, decision, is_applied=self._is_applied)

    def _restore(self) -> None:
        if self._is_restored and self._tuner.settings != adjusting.read_settings(self._before):
            self._model.load(self._before)
            print(f"{_now()} model '{self._model.name}' is served as it was before")


def _parser() -> Parser:
    parser = make_parser("tune", "Adjust how a served model is batched.")
    parser.add_argument("model", help="the served model")
    parser.add_argument("--slo", help="mean:MS or pN:MS, for example p99:50")
    parser.add_argument("--delay-us", help="the queue delay may be adjusted, LEAST:MOST")
    parser.add_argument("--batch", help="the preferred batch size may be adjusted, LEAST:MOST")
    parser.add_argument("--apply", action="store_true", help="do it; without, only say what")
    parser.add_argument("--period", type=float, default=60.0, help="seconds (%(default)s)")
    parser.add_argument("--periods", type=int, default=0, help="how many; 0: until Ctrl-C")
    parser.add_argument("--journal", type=Path, help="file for what is seen and done")
    parser.add_argument("--restore", action="store_true", help="at the end go back")
    parser.add_argument("--revert", type=Path, metavar="JOURNAL", help="only go back")
    parser.add_argument("--metrics-url", default="localhost:8002/metrics", help="(%(default)s)")
    add_server(parser)
    return parser


def _required(value: str | None, option: str) -> str:
    if not value:
        raise InvalidArgumentError(f"{option} is missing")
    return value


def _range(text: str | None, option: str) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        low, high = (int(each) for each in text.split(":"))
    except ValueError:
        low, high = 1, 0
    if not 0 <= low <= high:
        raise InvalidArgumentError(f"{option} '{text}': expected LEAST:MOST, for example 0:5000")
    return low, high


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
