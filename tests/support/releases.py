# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Folders with releases of Manta: this one, and others made of it, each run from its folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.server import ROOT

_PACKAGES = ("backends", "cluster", "deployments", "manta")


class CodeFolder:
    """A copy of the packages.

    Args:
        folder: Where to put it.
        version: The version that it says it is.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        for package in _PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        self.change("cluster/__init__.py", r'__version__ = ".*"', f'__version__ = "{version}"')

    def change(self, path: str, pattern: str, by: str) -> None:
        """Replace the first text of a file that a pattern matches."""
        file = self.folder / path
        text, count = re.subn(pattern, by, file.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1, f"{path} has no {pattern}"
        file.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """That of a process that shall find this release alone."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(self, *arguments: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
        """Run the command of this release."""
        return subprocess.run(
            [sys.executable, "-m", "cluster", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def evolved(code: CodeFolder) -> CodeFolder:
    """Add fields to records that processes of both releases hand each other; returns the folder."""
    field = '    shade: str = "blue"\n'
    code.change(
        "deployments/contracts/routing_table.py",
        r"    has_readiness: bool = False\n",
        "    shade: str = 'blue'\n    has_readiness: bool = False\n",
    )
    code.change(
        "deployments/contracts/routing_table.py", r"    report_number: int\n", rf"\g<0>{field}"
    )
    code.change("deployments/instance/spec.py", r'    release: str = ""\n', rf"{field}\g<0>")
    code.change("deployments/pool_queue/messages.py", r"    waited_ns: int = 0\n", rf"\g<0>{field}")
    code.change(
        "cluster/controller/durable_state.py", r"    generation: int = 0\n", rf"{field}\g<0>"
    )
    return code


def broken(code: CodeFolder) -> CodeFolder:
    """Have instances end while they start; returns the folder."""
    code.change(
        "deployments/instance/actor.py", r"        become_plain\(", r"        os._exit(1)\n\g<0>"
    )
    return code
