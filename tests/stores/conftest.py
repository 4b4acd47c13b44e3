# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One emulator of each store for all tests; each test has a directory of its own in it."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from cluster.repository.stores.contracts import Store
from tests.support.object_stores import RUNNING, Emulator, has_azurite
from tests.support.server_reports import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]

# On a busy machine azurite alone takes a minute to start.
_TIMEOUT_S = 600

# Of moto: a line for each request.
logging.getLogger("werkzeug").setLevel(logging.WARNING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session")
def emulators() -> Iterator[dict[str, Emulator]]:
    """Those that were asked for until now; they start with the first test that wants them."""
    with ExitStack() as stack:
        yield _Emulators(stack)


class _Emulators(dict[str, Emulator]):
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __missing__(self, kind: str) -> Emulator:
        self[kind] = self._stack.enter_context(RUNNING[kind]())
        return self[kind]


@pytest.fixture(params=list(RUNNING))
def emulator(request: pytest.FixtureRequest, emulators: dict[str, Emulator]) -> Iterator[Emulator]:
    if request.param == "as" and not has_azurite():
        pytest.skip("azurite is not installed: run 'scripts/store_tools.sh'")
    running = emulators[request.param]
    running.proxy.heal()
    yield running
    running.proxy.heal()
    running.opened.close()


@pytest.fixture
def directory() -> str:
    return uuid4().hex


@pytest.fixture
def store(emulator: Emulator, directory: str) -> Store:
    return emulator.open(directory)
