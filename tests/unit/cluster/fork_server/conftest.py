# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A fork server for a module: it takes seconds to import what it forks."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.forked_processes import Asking, asking, clients


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A fork server, which is asked by the compiled client where there is one."""
    folder = tmp_path_factory.mktemp("scripts")
    found = clients(tmp_path_factory.mktemp("clients"))
    client = found["compiled"] if found["compiled"].is_file() else found["script"]
    with asking(client, folder) as made:
        yield made


@pytest.fixture(params=["compiled", "script"])
def each_client(
    request: pytest.FixtureRequest, asked: Asking, tmp_path_factory: pytest.TempPathFactory
) -> Asking:
    """That fork server, asked by either client."""
    client = clients(tmp_path_factory.mktemp("clients"))[request.param]
    if not client.is_file():
        pytest.skip("no C compiler")
    return replace(asked, client=client)
