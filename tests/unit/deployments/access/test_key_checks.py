# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Chosen keys are checked on a thread, once for all who wait, and not more than a few at a time."""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.api.errors import ResourceExhaustedError, TritonError, UnauthenticatedError
from deployments.access import key_checks
from deployments.access.contracts import Peer, PendingError
from deployments.access.guard import PolicyGuard, make_guard, serving_guard
from deployments.access.key_checks import KeyChecks, at_once
from deployments.access.key_thread import KeyThread
from deployments.access.keys import KeyRing, read_hash
from deployments.access.policy import Identity, Scrypt, StoredKey
from deployments.access.refusals import Reason, RefusedError, text_of
from tests.support.access import Clock, write_policy

HTTP = Peer("http")
Done = Callable[[BaseException | None], None]


def _hash(key: str) -> str:
    """What a policy keeps of a key, as cheap to look at as scrypt gets."""
    salt = b"s" * 16
    digest = hashlib.scrypt(key.encode(), salt=salt, n=2, r=1, p=1, dklen=32)
    return f"scrypt:2:1:1:{salt.hex()}:{digest.hex()}"


def _stored(key: str, subject: str) -> StoredKey:
    scrypt = read_hash(_hash(key))
    assert isinstance(scrypt, Scrypt)
    return StoredKey(Identity(subject), scrypt=scrypt)


@pytest.fixture(scope="module")
def ring() -> KeyRing:
    return KeyRing([_stored("secret word", "old-client")])


class Held:
    """Keeps what is to be done on a thread."""

    def __init__(self) -> None:
        self.works: list[tuple[Callable[[], None], Done]] = []

    def __call__(self, work: Callable[[], None], done: Done) -> None:
        self.works.append((work, done))

    def run(self) -> None:
        work, done = self.works.pop(0)
        work()
        done(None)


def _pending(checks: KeyChecks, ring: KeyRing, given: bytes) -> PendingError:
    with pytest.raises(PendingError) as caught:
        checks.find(ring, given, lambda: True)
    return caught.value


def test_all_who_show_a_credential_wait_for_one_check_and_find_what_it_found(ring: KeyRing) -> None:
    held = Held()
    checks = KeyChecks(held)
    found: list[StoredKey | None] = []
    for _ in range(3):
        pending = _pending(checks, ring, b"secret word")
        pending.when_known(lambda: found.append(checks.find(ring, b"secret word", lambda: False)))
    _pending(checks, ring, b"a guess")
    assert len(held.works) == 2
    held.run()
    assert found == ring.chosen * 3
    # The other one is still being checked; what has been is not kept.
    held.run()
    _pending(checks, ring, b"secret word")


def test_another_ring_of_keys_has_a_check_of_its_own(ring: KeyRing) -> None:
    held = Held()
    checks = KeyChecks(held)
    pending = _pending(checks, ring, b"secret word")
    newer = KeyRing([])
    again: list[PendingError] = []
    pending.when_known(lambda: again.append(_pending(checks, newer, b"secret word")))
    held.run()
    assert len(again) == len(held.works) == 1


def test_no_more_than_a_few_credentials_are_checked_at_a_time(ring: KeyRing) -> None:
    held = Held()
    checks = KeyChecks(held)
    for number in range(key_checks._MOST_CHECKS):
        _pending(checks, ring, b"guess %d" % number)
    asked: list[bool] = []

    def may_begin() -> bool:
        asked.append(True)
        return True

    with pytest.raises(RefusedError) as caught:
        checks.find(ring, b"one more", may_begin)
    assert caught.value.reason is Reason.LIMITED
    assert asked == []
    held.run()
    _pending(checks, ring, b"one more")


def test_no_more_than_so_many_requests_wait(ring: KeyRing) -> None:
    held = Held()
    checks = KeyChecks(held)
    for number in range(key_checks._MOST_WAITING):
        _pending(checks, ring, b"guess %d" % (number % 2)).when_known(lambda: None)
    with pytest.raises(RefusedError):
        checks.find(ring, b"guess 0", lambda: True)
    held.run()
    _pending(checks, ring, b"guess 1").when_known(lambda: None)


def test_a_check_that_fails_is_the_error_of_all_who_wait(ring: KeyRing) -> None:
    held = Held()
    checks = KeyChecks(held)
    errors: list[str] = []

    def ask_again() -> None:
        with pytest.raises(MemoryError) as caught:
            checks.find(ring, b"a guess", lambda: True)
        errors.append(str(caught.value))
        raise ValueError("one that fails keeps no other one waiting")

    for _ in range(2):
        _pending(checks, ring, b"a guess").when_known(ask_again)
    _, done = held.works.pop()
    done(MemoryError("scrypt"))
    assert errors == ["scrypt"] * 2


def test_a_check_that_cannot_begin_leaves_nothing_to_wait_for(ring: KeyRing) -> None:
    def refuse(work: Callable[[], None], done: Done) -> None:
        raise RuntimeError("closed")

    checks = KeyChecks(refuse)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            checks.find(ring, b"a guess", lambda: True)


def _policy(folder: Path) -> str:
    keys = [{"subject": f"client-{number}", "hash": _hash(f"word {number}")} for number in range(3)]
    keys[2]["revoked"] = True  # type: ignore[assignment]
    return str(write_policy(folder, {"authentication": {"api_keys": {"keys": keys}}}))


def _guard(folder: Path, clock: Clock, thread: KeyThread | None) -> PolicyGuard:
    return make_guard(_policy(folder), clock, has_audit=False, thread=thread)


async def _identify(guard: PolicyGuard, value: str) -> str | TritonError:
    """The subject, or why there is none, however long that takes."""
    known: asyncio.Future[str | TritonError] = asyncio.get_running_loop().create_future()

    def ask() -> None:
        try:
            rights = guard.identify([(b"x-api-key", value.encode())], HTTP)
            known.set_result(rights.caller.subject)
        except TritonError as error:
            known.set_result(error)
        except PendingError as pending:
            pending.when_known(ask)

    ask()
    return await asyncio.wait_for(known, 30)


async def test_a_guard_with_a_thread_says_what_one_without_says(tmp_path: Path) -> None:
    thread = KeyThread()
    outcomes = []
    for each in (None, thread):
        guard = _guard(tmp_path, Clock(), each)
        said = []
        for value in ("word 0", "word 1", "word 2", "a guess", "word 0", "a guess", "word 1"):
            outcome = await _identify(guard, value)
            said.append(outcome if isinstance(outcome, str) else repr(outcome))
        outcomes.append((said, guard.counters.refusals))
    thread.close()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0][:2] == ["client-0", "client-1"]


def test_without_a_loop_a_check_is_done_at_once_and_its_error_told() -> None:
    ended: list[BaseException | None] = []

    def fail() -> None:
        raise OSError("no memory")

    at_once(fail, ended.append)
    at_once(lambda: None, ended.append)
    assert [str(each) for each in ended] == ["no memory", "None"]


async def test_a_thread_that_is_closed_begins_no_further_check() -> None:
    thread, may_go_on, begun = KeyThread(), threading.Event(), []
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        assert may_go_on.wait(30)

    thread.run(wait, lambda _: None)
    thread.run(lambda: begun.append("second"), lambda _: None)
    assert await asyncio.to_thread(entered.wait, 30)
    thread.close()
    may_go_on.set()
    await asyncio.to_thread(thread._threads.shutdown)
    assert begun == []


async def test_guesses_are_bounded_in_time_on_a_thread_as_well(tmp_path: Path) -> None:
    thread, clock = KeyThread(), Clock()
    guard = _guard(tmp_path, clock, thread)
    refused = [type(await _identify(guard, f"guess {number}")) for number in range(10)]
    # 16 looks at once, three for each guess.
    assert refused == [UnauthenticatedError] * 5 + [ResourceExhaustedError] * 5
    limited = await _identify(guard, "guess 12")
    assert isinstance(limited, ResourceExhaustedError)
    assert limited.message == text_of(Reason.LIMITED)
    clock.now_s += 60
    assert isinstance(await _identify(guard, "guess 11"), UnauthenticatedError)
    thread.close()


async def test_the_loop_is_free_while_keys_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = KeyThread()
    guard = _guard(tmp_path, Clock(), thread)
    may_go_on, threads = threading.Event(), []
    find = KeyRing.find_chosen

    def find_late(ring: KeyRing, given: bytes) -> StoredKey | None:
        threads.append(threading.current_thread())
        assert may_go_on.wait(30)
        return find(ring, given)

    monkeypatch.setattr(KeyRing, "find_chosen", find_late)
    asking = [asyncio.create_task(_identify(guard, "word 1")) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asking)
    may_go_on.set()
    assert await asyncio.gather(*asking) == ["client-1"] * 3
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
    thread.close()


async def test_who_serves_has_a_thread_and_ends_it_with_the_guard(tmp_path: Path) -> None:
    assert serving_guard("") is None
    guard = serving_guard(_policy(tmp_path))
    assert guard is not None
    shown = [(b"x-api-key", b"word 1")]
    with pytest.raises(PendingError):
        guard.identify(shown, HTTP)
    assert await _identify(guard, "word 1") == "client-1"
    guard.close()
    with pytest.raises(RuntimeError):
        guard.identify([(b"x-api-key", b"a guess")], HTTP)
