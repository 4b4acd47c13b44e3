# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A bucket itself as a repository, and a model whose listing has several pages, over S3."""

from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from cluster.repository.remote import RemoteFileSystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import Store
from tests.support.object_stores import Emulator

# Upstream's number; a page has 1,000.
MANY = 1050


@pytest.fixture
def bucket(emulators: dict[str, Emulator]) -> Store:
    """A bucket of its own, whose name has a dot."""
    emulator = emulators["s3"]
    emulator.proxy.heal()
    name = f"models-1.{uuid4().hex}"
    signed = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, Signature=x"
    request = Request(f"{emulator.proxy.url}/{name}", None, {"Authorization": signed}, method="PUT")
    with urlopen(request):
        return emulator.open(bucket=name)


def repository_in(store: Store) -> ModelRepository:
    filesystem = RemoteFileSystem(store, Skeletons())
    return ModelRepository([store.location], open_location=lambda _: (filesystem, store.location))


def test_an_empty_bucket_is_an_empty_repository(bucket: Store) -> None:
    scan = repository_in(bucket).scan()
    assert (scan.directories, scan.errors) == ({}, {})


def test_a_bucket_itself_may_be_the_repository(bucket: Store) -> None:
    bucket.write("Model_repo-1.0/1/model.py", b"x")
    repository = repository_in(bucket)
    assert list(repository.scan().directories) == ["Model_repo-1.0"]
    files = repository.read_model("Model_repo-1.0").files
    assert files is not None
    assert [file.path for file in files[1].files] == ["1/model.py"]


def test_a_model_of_more_files_than_a_page_is_whole(bucket: Store) -> None:
    names = [f"{index:05d}.txt" for index in range(MANY)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: bucket.write(f"m/{name}", b""), names))
    bucket.write("m/1/model.py", b"x")
    files = repository_in(bucket).read_model("m").files
    assert files is not None
    assert [file.path for file in files[1].files] == [*names, "1/model.py"]
