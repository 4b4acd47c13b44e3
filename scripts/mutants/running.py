# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the mutants of a room: python -m scripts.mutants.running MUTANTS RESULTS TEST ...

One process imports the room and collects its tests. Two children of it note how long each test
takes and which lines it runs. Each mutant is another child, which gives the function the changed
code and runs the tests that run a changed line, the quickest first, until one fails.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Final

import pytest

from scripts.mutants.rooms import Mutant, code_of

# A test that takes this much longer than without the change does not end; it ends the process.
_TIMES_LONGER: Final = 4
_LONGER_S: Final = 5.0
# One that allocates without end fails before the machine does.
_MORE_BYTES: Final = 2 << 30
_PROCESSES: Final = 2
# PR_SET_PDEATHSIG of <linux/prctl.h>.
_DIE_WITH_PARENT: Final = 1
_SURVIVES: Final = 0
_KILLED: Final = 1


@dataclass
class _Child:
    """A process that runs tests, and when it is given up."""

    pid: int
    deadline: float
    ended: Callable[[int], None]


@dataclass
class _Pool:
    """So many children at a time."""

    children: list[_Child] = field(default_factory=list)

    def fork(self, work: Callable[[], int], limit_s: float, ended: Callable[[int], None]) -> None:
        """Run work in a child; its exit code is told, or -SIGKILL if it takes longer."""
        while len(self.children) >= _PROCESSES:
            self._reap()
        pid = os.fork()
        if pid == 0:
            _be_child(work)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        self.children.append(_Child(pid, time.monotonic() + limit_s, ended))

    def join(self) -> None:
        """Wait until all have ended."""
        while self.children:
            self._reap()

    def _reap(self) -> None:
        for child in list(self.children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid == 0 and time.monotonic() < child.deadline:
                continue
            # What the child has started ends with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if pid == 0:
                _, status = os.waitpid(child.pid, 0)
            self.children.remove(child)
            child.ended(os.waitstatus_to_exitcode(status))
            return
        time.sleep(0.002)


def _be_child(work: Callable[[], int]) -> None:
    code = _KILLED  # also if the change lets pytest itself fall over
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for each in range(3):
            os.dup2(nothing, each)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MORE_BYTES, used + _MORE_BYTES))
        code = work()
    finally:
        os._exit(code)


class Reach:
    """Which lines of some files each test runs."""

    def __init__(self, files: list[str]) -> None:
        self._lines: dict[str, set[int]] = {each: set() for each in files}

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the lines that are run until the end."""
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def take(self) -> dict[str, list[int]]:
        """Return what was run since the last time."""
        taken = {file: sorted(lines) for file, lines in self._lines.items() if lines}
        for each in self._lines.values():
            each.clear()
        return taken

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in self._lines:
            return None
        return self._line(frame, event, argument)

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


class MutantRun:
    """The pytest plugin that runs mutants instead of the tests once."""

    def __init__(self, mutants: list[Mutant], results: Path) -> None:
        self._mutants = mutants
        self._results = results
        self._failed = ""
        self._modules = {each.file: str(Path(each.file).resolve()) for each in mutants}
        self._verdicts: list[dict[str, object]] = []

    def pytest_sessionstart(self) -> None:
        """Have generated examples be the same in each run; a failing one is not made smaller."""
        # Not imported above: pytest rewrites its assertions.
        hypothesis = importlib.import_module("hypothesis")
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutants", hypothesis.settings(), derandomize=True, phases=phases
        )
        hypothesis.settings.load_profile("mutants")
        for each in self._modules:
            importlib.import_module(each.removesuffix(".py").replace("/", "."))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test has failed."""
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all mutants."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        functions = self._functions()
        times, reached = self._measured(session)
        pool = _Pool()
        for each in self._mutants:
            wanted = self._wanted(each, session.items, times, reached)
            function = functions.get((self._modules[each.file], each.function, each.first_line))
            if not wanted or not function:
                self._tell(each, "no test", "", 0.0)
                continue
            self._start(pool, each, function, wanted, times)
        pool.join()
        self._results.write_text(json.dumps(self._verdicts, indent=1))
        return True

    def _functions(self) -> dict[tuple[str, str, int], list[FunctionType]]:
        """Return the functions of the room's files by file, name and first line."""
        gc.unfreeze()
        files = set(self._modules.values())
        found = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in files:
                code = each.__code__
                found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
        gc.collect()
        gc.freeze()
        return found

    def _measured(
        self, session: pytest.Session
    ) -> tuple[dict[str, float], dict[str, dict[str, list[int]]]]:
        """Run all tests twice: how long each takes, and which lines it runs."""
        pool = _Pool()
        reach = Reach(list(self._modules.values()))
        with tempfile.TemporaryDirectory() as folder:
            times, reached, failed = (
                Path(folder) / each for each in ("times", "reached", "failed")
            )
            for to, noted in ((times, None), (reached, reach)):
                work = functools.partial(self._measure, session, noted, to, failed)
                pool.fork(work, float("inf"), lambda _: None)
            pool.join()
            if failed.exists():
                raise pytest.UsageError(f"{failed.read_text()} fails without a mutant")
            return json.loads(times.read_text()), json.loads(reached.read_text())

    def _measure(self, session: pytest.Session, reach: Reach | None, to: Path, failed: Path) -> int:
        found: dict[str, object] = {}
        for item, after in zip(session.items, [*session.items[1:], None], strict=True):
            begin = time.monotonic()
            with reach.noted() if reach else contextlib.nullcontext():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            found[item.nodeid] = reach.take() if reach else time.monotonic() - begin
            if self._failed:
                failed.write_text(self._failed)
                return _KILLED
        to.write_text(json.dumps(found))
        return _SURVIVES

    def _wanted(
        self,
        mutant: Mutant,
        items: list[pytest.Item],
        times: dict[str, float],
        reached: dict[str, dict[str, list[int]]],
    ) -> list[pytest.Item]:
        """Return the tests that run a changed line, the quickest first."""
        file, (first, last) = self._modules[mutant.file], mutant.lines
        wanted = [
            item
            for item in items
            if any(first <= line <= last for line in reached[item.nodeid].get(file, ()))
        ]
        return sorted(wanted, key=lambda item: times[item.nodeid])

    def _start(
        self,
        pool: _Pool,
        mutant: Mutant,
        functions: list[FunctionType],
        wanted: list[pytest.Item],
        times: dict[str, float],
    ) -> None:
        begin = time.monotonic()
        file = self._modules[mutant.file]
        code = code_of(mutant.source, file, mutant.function, mutant.first_line)
        assert code is not None
        assert code.co_freevars == functions[0].__code__.co_freevars

        def work() -> int:
            for each in functions:
                each.__code__ = code
            for item, after in zip(wanted, [*wanted[1:], None], strict=True):
                limit_s = times[item.nodeid] * _TIMES_LONGER + _LONGER_S
                item.add_marker(pytest.mark.timeout(limit_s, method="thread"), append=False)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if self._failed:
                    return _KILLED
            return _SURVIVES

        def ended(code: int) -> None:
            of_code = {_SURVIVES: "survived", -signal.SIGKILL: "timeout"}
            verdict = of_code.get(code, "killed")
            self._tell(mutant, verdict, f"{len(wanted)} tests", time.monotonic() - begin)

        # What holds the interpreter's lock ends here.
        normal_s = sum(times[each.nodeid] for each in wanted)
        pool.fork(work, (normal_s + _LONGER_S) * _TIMES_LONGER, ended)

    def _tell(self, mutant: Mutant, verdict: str, tests: str, seconds: float) -> None:
        row = asdict(mutant)
        del row["source"]
        self._verdicts.append(
            row | {"verdict": verdict, "tests": tests, "seconds": round(seconds, 2)}
        )


def main(mutants_file: str, results: str, *tests: str) -> int:
    """Run the mutants of a file against the tests, and write what came of each."""
    rows = json.loads(Path(mutants_file).read_text())
    mutants = [Mutant(**{**row, "lines": tuple(row["lines"])}) for row in rows]
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        # Each child makes a folder of its own in it.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        options = ["-q", "-s", "-p", "no:xdist", "-p", "no:schemathesis"]
        return pytest.main([*options, *tests], plugins=[MutantRun(mutants, Path(results))])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
