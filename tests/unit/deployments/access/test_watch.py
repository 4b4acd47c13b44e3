# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.api.errors import UnauthenticatedError, UnavailableError
from deployments.access.policy import Issuer
from deployments.access.signing_keys import SigningKeys, read_signing_keys
from deployments.access.watch import PolicyWatch
from deployments.supervision.supervisor import Supervisor
from tests.support.access import (
    HTTP,
    ISSUER,
    TokenIssuer,
    bearer,
    guard_of,
    key_entry,
    made_key,
    write_policy,
)

SIGNER = TokenIssuer()
POLICY: dict[str, Any] = {"authentication": {"api_keys": {"keys": [key_entry("alice")]}}}
FETCHED: dict[str, Any] = {
    "authentication": {"jwt": [{"issuer": ISSUER, "audience": "manta", "discovery": True}]}
}


def _shown(name: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-api-key", made_key(name).encode())]


async def test_a_policy_that_changes_is_taken_once(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, POLICY)
    watch = PolicyWatch(guard)
    assert not await watch.look_at_files()
    assert guard.revision == 1
    write_policy(tmp_path, {"authentication": {"api_keys": {"keys": [key_entry("bob")]}}})
    assert await watch.look_at_files()
    assert not await watch.look_at_files()
    assert not await watch.look_at_files()
    assert (guard.revision, guard.counters.reloads["taken"]) == (2, 1)
    assert guard.identify(_shown("bob"), HTTP).caller.subject == "bob"


async def test_a_change_between_the_start_and_the_first_look_is_seen(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, POLICY)
    write_policy(tmp_path, {"authentication": {"api_keys": {"keys": [key_entry("bob")]}}})
    assert await PolicyWatch(guard).look_at_files()


async def test_a_policy_that_is_wrong_is_logged_and_counted_once_and_the_old_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guard_of(tmp_path, POLICY)
    watch = PolicyWatch(guard)
    (tmp_path / "policy.yaml").write_text("grants: 5")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert not await watch.look_at_files()
    assert [each.message for each in caplog.records] == [
        f"access policy file '{tmp_path}/policy.yaml': grants: got 5, expected a list; make it"
        " a list; the policy of before goes on"
    ]
    assert (guard.revision, guard.counters.reloads["refused"]) == (1, 1)
    guard.identify(_shown("alice"), HTTP)
    write_policy(tmp_path, {})
    assert await watch.look_at_files()
    with pytest.raises(UnauthenticatedError, match="not valid"):
        guard_of(tmp_path, POLICY).identify(_shown("bob"), HTTP)


async def test_each_new_mistake_in_a_policy_is_told(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, POLICY)
    watch = PolicyWatch(guard)
    mistakes = ("grants: 5", "grants: 6", "grants: 6  # the same, in a file that was written again")
    for count, text in enumerate(mistakes, 1):
        (tmp_path / "policy.yaml").write_text(text)
        assert not await watch.look_at_files()
        assert not await watch.look_at_files()
        assert guard.counters.reloads["refused"] == count


async def test_a_policy_that_is_removed_goes_on(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, POLICY)
    watch = PolicyWatch(guard)
    (tmp_path / "policy.yaml").unlink()
    assert not await watch.look_at_files()
    guard.identify(_shown("alice"), HTTP)


async def test_a_file_that_a_new_policy_names_may_come_later(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, POLICY)
    watch = PolicyWatch(guard)
    write_policy(tmp_path, {"authentication": {"api_keys": {"file": "keys.yaml"}}})
    assert not await watch.look_at_files()
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump([key_entry("carol")]))
    assert await watch.look_at_files()
    guard.identify(_shown("carol"), HTTP)


async def test_keys_in_a_mounted_secret_are_rotated(tmp_path: Path) -> None:
    """Kubernetes has ``..data`` lead to a folder of the new files, in one step."""
    secret = tmp_path / "secret"
    secret.mkdir()

    def mount(number: int, *entries: dict[str, Any]) -> None:
        folder = secret / f"..{number}"
        folder.mkdir()
        (folder / "keys.yaml").write_text(yaml.safe_dump(list(entries)))
        (secret / "..new").symlink_to(folder.name)
        (secret / "..new").rename(secret / "..data")

    mount(1, key_entry("old"))
    (secret / "keys.yaml").symlink_to("..data/keys.yaml")
    guard = guard_of(tmp_path, {"authentication": {"api_keys": {"directory": "secret"}}})
    watch = PolicyWatch(guard)
    guard.identify(_shown("old"), HTTP)
    mount(2, key_entry("old"), key_entry("new"))
    assert await watch.look_at_files()
    guard.identify(_shown("old"), HTTP)
    guard.identify(_shown("new"), HTTP)
    mount(3, key_entry("new"))
    assert await watch.look_at_files()
    with pytest.raises(UnauthenticatedError):
        guard.identify(_shown("old"), HTTP)


async def test_keys_of_an_issuer_in_a_file_are_rotated(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_bytes(SIGNER.jwks())
    issuer = {"issuer": ISSUER, "audience": "manta", "jwks_file": "jwks.json"}
    guard = guard_of(tmp_path, {"authentication": {"jwt": [issuer]}})
    watch = PolicyWatch(guard)
    new = TokenIssuer("two")
    guard.identify(bearer(SIGNER.token()), HTTP)
    (tmp_path / "jwks.json").write_bytes(new.jwks())
    assert await watch.look_at_files()
    guard.identify(bearer(new.token()), HTTP)
    with pytest.raises(UnauthenticatedError):
        guard.identify(bearer(SIGNER.token()), HTTP)


class _Fetches:
    """An issuer's keys, and how often they were fetched."""

    def __init__(self) -> None:
        self.count = 0
        self.is_away = False
        self.keys = SIGNER.jwks()

    def __call__(self, issuer: Issuer) -> SigningKeys:
        self.count += 1
        if self.is_away:
            raise UnavailableError("away")
        return read_signing_keys(self.keys, issuer.issuer)


async def test_keys_are_fetched_anew_in_time_and_for_an_unknown_key_sooner(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, FETCHED)
    fetches, now_s = _Fetches(), 1000.0
    watch = PolicyWatch(guard, lambda: now_s, fetches)
    await watch.fetch_keys()
    guard.identify(bearer(SIGNER.token()), HTTP)
    new = TokenIssuer("two")
    fetches.keys = SIGNER.jwks(new)
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            guard.identify(bearer(new.token()), HTTP)
        await watch.fetch_keys()
    # Whoever makes up keys has the issuer asked every ten seconds at most.
    assert fetches.count == 1
    now_s += 10.0
    await watch.fetch_keys()
    assert fetches.count == 2
    guard.identify(bearer(new.token()), HTTP)
    now_s += 299.0
    await watch.fetch_keys()
    assert fetches.count == 2
    now_s += 1.0
    await watch.fetch_keys()
    assert fetches.count == 3


async def test_the_last_keys_are_kept_while_an_issuer_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guard_of(tmp_path, FETCHED)
    fetches, now_s = _Fetches(), 1000.0
    watch = PolicyWatch(guard, lambda: now_s, fetches)
    await watch.fetch_keys()
    fetches.is_away = True
    for _ in range(3):
        now_s += 300.0
        await watch.fetch_keys()
    assert guard.counters.key_fetches == {"fetched": 1, "failed": 3}
    assert len(caplog.records) == 1
    guard.identify(bearer(SIGNER.token()), HTTP)


async def test_keys_are_fetched_at_once_from_another_address_and_the_old_ones_leave(
    tmp_path: Path,
) -> None:
    issuer = {"issuer": ISSUER, "audience": "manta", "jwks_url": "https://issuer.example/1"}
    guard = guard_of(tmp_path, {"authentication": {"jwt": [issuer]}})
    fetches = _Fetches()
    watch = PolicyWatch(guard, lambda: 1000.0, fetches)
    await watch.fetch_keys()
    for change, count in (({"clock_skew_s": 5}, 1), ({"jwks_url": "https://issuer.example/2"}, 2)):
        issuer |= change
        write_policy(tmp_path, {"authentication": {"jwt": [issuer]}})
        assert await watch.look_at_files()
        if count == 1:
            guard.identify(bearer(SIGNER.token()), HTTP)
        else:
            with pytest.raises(UnavailableError):
                guard.identify(bearer(SIGNER.token()), HTTP)
        await watch.fetch_keys()
        assert fetches.count == count
        guard.identify(bearer(SIGNER.token()), HTTP)


async def test_the_tasks_follow_files_and_keys_until_they_are_closed(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, FETCHED)
    tasks = Supervisor("test")
    fetched = asyncio.Event()
    loop = asyncio.get_running_loop()

    def fetch(issuer: Issuer) -> SigningKeys:
        loop.call_soon_threadsafe(fetched.set)
        return read_signing_keys(SIGNER.jwks(), issuer.issuer)

    PolicyWatch(guard, fetch=fetch).start(tasks)
    await fetched.wait()
    await tasks.close()
    assert not tasks.restarts
