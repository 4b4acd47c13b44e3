# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What holds of each store, of those that need no server."""

from pathlib import Path
from uuid import uuid4

import pytest

from backends.api.errors import UnsupportedError
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store
from tests.support import store_claims


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return open_store(str(tmp_path / "root"))
    return open_store(f"memory://{uuid4().hex}/root")


@pytest.mark.parametrize("claim", store_claims.ALL, ids=lambda claim: claim.__name__)
def test_store(store: Store, claim: store_claims.Claim, tmp_path: Path):
    claim(store, tmp_path / "scratch")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(UnsupportedError) as caught:
        open_store("s3://bucket/models", {}).look("x")
    assert caught.value.message == (
        "model repository 's3://bucket/models' needs s3fs, which is not installed: "
        "pip install manta-serve[s3]"
    )


def test_a_local_file_is_never_seen_half_written(tmp_path: Path):
    store = open_store(str(tmp_path))
    store.write("a", b"1")
    store.write("a", b"22")
    assert [file.path for file in store.find()] == ["a"]


def test_links_that_lead_up_end(tmp_path: Path):
    (tmp_path / "up").symlink_to(tmp_path)
    with pytest.raises(Exception, match="links that lead back up"):
        list(open_store(str(tmp_path)).find())
