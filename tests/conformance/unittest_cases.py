# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs unittest cases of a file and writes a line of JSON for each as it ends.

python unittest_cases.py REPORT FILE [CLASS | CLASS.CASE]... [--only PART...]

A line holds ``case``, ``elapsed_s`` and ``wrong``, which is empty when the case passed. With
--only, cases whose name holds none of the parts are left out.
"""

import argparse
import importlib
import json
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Report(unittest.TestResult):
    """Writes the outcome of each case to a file.

    Args:
        path: Where to.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w")
        self._begin_s = 0.0
        self._wrong = ""

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self._begin_s = time.monotonic()
        self._wrong = ""

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._note(err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._note(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(err)

    def _note(self, err: Any) -> None:
        lines = str(err[1]).strip().splitlines()
        self._wrong = self._wrong or " ".join([err[0].__name__, *lines])

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        line = {
            "case": name_of(test),
            "elapsed_s": time.monotonic() - self._begin_s,
            "wrong": self._wrong,
        }
        print(json.dumps(line), file=self._file, flush=True)


def name_of(test: unittest.TestCase) -> str:
    """Return CLASS.CASE."""
    return ".".join(test.id().rsplit(".", 2)[-2:])


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the cases in a suite of suites."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from cases(each)
        else:
            yield each


def main() -> int:
    """Run the cases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--only", nargs="*", default=())
    given = parser.parse_args()
    sys.path.insert(0, str(given.file.parent))
    module = importlib.import_module(given.file.stem)
    loader = unittest.defaultTestLoader
    found = (
        loader.loadTestsFromNames(given.names, module)
        if given.names
        else loader.loadTestsFromModule(module)
    )
    chosen = unittest.TestSuite(
        case
        for case in cases(found)
        if not given.only or any(part in name_of(case) for part in given.only)
    )
    return 0 if chosen.run(Report(given.report)).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
