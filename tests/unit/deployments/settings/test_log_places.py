# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a record of the log came from."""

import logging
import sys
from pathlib import Path
from types import ModuleType

import pytest

from deployments.settings.log_places import place_of

COMPILED = "deployments.routing.compiled_here"
SOURCE = '''"""A module."""

def lost(name):
    _log.info(
        "lane to %s: %s; trying again, because it may be"
        " back in a moment",
        name,
    )
'''


def record_of(logger: str, message: str) -> logging.LogRecord:
    return logging.LogRecord(logger, logging.INFO, "/lib/threading.py", 982, message, ("a",), None)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that is compiled, and its source."""
    module = ModuleType(COMPILED)
    module.__file__ = f"{tmp_path}/compiled_here.cpython-311-x86_64-linux-gnu.so"
    monkeypatch.setitem(sys.modules, COMPILED, module)
    monkeypatch.setattr("deployments.settings.log_places.ROOT", tmp_path)
    source = tmp_path / "deployments/routing/compiled_here.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    return source


@pytest.mark.usefixtures("compiled")
def test_compiled_code_is_found_by_its_message() -> None:
    message = "lane to %s: %s; trying again, because it may be back in a moment"
    assert place_of(record_of(COMPILED, message)) == "compiled_here.py:5"


@pytest.mark.usefixtures("compiled")
def test_a_message_that_stands_nowhere_is_of_the_file() -> None:
    assert place_of(record_of(COMPILED, "made up")) == "compiled_here.py:1"


def test_compiled_code_without_a_source_is_named(compiled: Path) -> None:
    compiled.unlink()
    assert place_of(record_of(COMPILED, "gone")) == "compiled_here.py:1"


def test_other_code_is_where_logging_found_it() -> None:
    assert place_of(record_of("cluster.server.server", "lane")) == "threading.py:982"
