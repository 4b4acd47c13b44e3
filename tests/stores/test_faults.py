# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a store does on bad days ends in the whole content, or in an error that says what to do."""

import json
from pathlib import Path

import pytest

from backends.api.errors import NotFoundError, UnavailableError
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.retry import RetryPolicy
from deployments.model_files.contracts import FileChangedError
from tests.support.object_stores import QUICK, Emulator
from tests.support.store_faults import EXPIRED, REFUSED
from tests.support.toxic_proxy import Seen, Toxic, always, each_third, first

CONTENT = bytes(range(256)) * 4096  # 1 MiB
# Gives up at once.
ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def filled(store: Store) -> Store:
    for index in range(6):
        store.write(f"m/{index}", CONTENT)
    return store


def read_all(store: Store) -> None:
    files = list(store.find())
    assert [file.path for file in files] == [f"m/{index}" for index in range(6)]
    for file in files:
        assert store.read(file.path, stamp=file.stamp) == CONTENT


@pytest.mark.parametrize(
    "toxic",
    [
        Toxic(503, b"SlowDown", {"Retry-After": "0"}),
        Toxic(429, b"too many"),
        Toxic(500, b"InternalError"),
        Toxic(cut_after_bytes=0),
        Toxic(cut_after_bytes=1000),
        Toxic(latency_s=0.2),
    ],
    ids=["throttled", "too many", "failing", "cut at once", "cut in a body", "slow"],
)
def test_each_third_request_may_fail(emulator: Emulator, filled: Store, toxic: Toxic):
    emulator.proxy.choose = each_third(toxic)
    read_all(filled)


def test_a_body_that_is_always_cut_ends_in_an_error(
    emulator: Emulator, filled: Store, directory: str
):
    emulator.proxy.choose = lambda seen: (
        Toxic(cut_after_bytes=1000) if directory in seen.path and "m" in seen.path else None
    )
    with pytest.raises(UnavailableError, match="check the network"):
        emulator.open(directory, policy=ONCE).read("m/1")


def test_a_store_that_cannot_be_reached_says_what_to_do(emulator: Emulator, directory: str):
    emulator.proxy.choose = always(Toxic(503))
    store = emulator.open(directory, policy=RetryPolicy(2, 0.01, 0.01))
    with pytest.raises(UnavailableError) as caught:
        list(store.find())
    message = caught.value.message
    assert store.location in message
    assert "with credentials of environment" in message
    for secret in ("very-secret", "Eby8vdM0"):
        assert secret not in message
    assert len(emulator.proxy.seen) == 2


def test_refused_credentials_have_tritons_text(emulator: Emulator, filled: Store):
    emulator.proxy.choose = always(EXPIRED[emulator.kind])
    with pytest.raises(UnavailableError) as caught:
        list(filled.find())
    assert caught.value.message.startswith(f"{REFUSED[emulator.kind]} ")
    assert "renew the credentials" in caught.value.message


def test_renewed_credentials_are_taken_up_without_an_error(emulator: Emulator, filled: Store):
    emulator.proxy.choose = first(1, EXPIRED[emulator.kind])
    read_all(filled)


def test_a_bucket_that_is_gone_is_named(emulator: Emulator):
    with pytest.raises(NotFoundError) as caught:
        list(emulator.open("m", bucket="gone-bucket").find())
    assert "Could not get MetaData for bucket with name gone-bucket" in caught.value.message


def test_an_object_replaced_in_mid_download_is_noticed(
    emulator: Emulator, filled: Store, directory: str
):
    (file, *_) = filled.find("m")
    assert filled.read(file.path, 0, 1000, file.stamp) == CONTENT[:1000]
    emulator.open(directory).write(file.path, b"another" * 1000)
    with pytest.raises(FileChangedError, match="is not the one that was listed"):
        filled.read(file.path, 1000, 1000, file.stamp)
    emulator.open(directory).remove(file.path)
    with pytest.raises(FileChangedError):
        filled.read(file.path, 1000, 1000, file.stamp)


def test_an_unchanged_repository_costs_one_request_for_each_page(emulator: Emulator, filled: Store):
    emulator.proxy.heal()
    assert len(list(filled.find())) == 6
    assert len(emulator.proxy.seen) == 1


def test_keys_of_the_credential_file_are_taken_up_when_it_changes(
    emulators: dict[str, Emulator], directory: str, tmp_path: Path
):
    emulator = emulators["s3"]
    emulator.proxy.heal()
    file = tmp_path / "credentials.json"

    def put(key: str) -> None:
        entry = {"key_id": key, "secret_key": "hidden", "region": "us-east-1"}
        file.write_text(json.dumps({"s3": {"": {}, emulator.location(): entry}}))

    def only_new(seen: Seen) -> Toxic | None:
        return None if "Credential=new/" in seen.authorization else EXPIRED["s3"]

    put("old")
    environ = {"TRITON_CLOUD_CREDENTIAL_PATH": str(file)}
    store = open_store(emulator.location(directory), environ, QUICK)
    try:
        store.write("x", b"1")
        emulator.proxy.choose = only_new
        with pytest.raises(UnavailableError) as caught:
            store.read("x")
        assert f"entry '{emulator.location()}' of s3 in {file}" in caught.value.message
        assert "hidden" not in caught.value.message
        put("new")
        assert store.read("x") == b"1"
    finally:
        store.close()
        emulator.proxy.heal()
