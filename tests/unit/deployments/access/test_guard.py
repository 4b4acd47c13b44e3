# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import (
    ResourceExhaustedError,
    TritonError,
    UnauthenticatedError,
    UnavailableError,
)
from deployments.access import guard as guard_module
from deployments.access.contracts import Peer, Role
from deployments.access.keys import hash_chosen
from deployments.access.policy_files import load_policy
from deployments.access.signing_keys import read_signing_keys
from tests.support.access import (
    HTTP,
    ISSUER,
    NOW_S,
    Clock,
    TokenIssuer,
    bearer,
    guard_of,
    key_entry,
    made_key,
    write_policy,
)
from tests.support.examples import examples

SIGNER = TokenIssuer()
FETCHED: dict[str, Any] = {
    "authentication": {
        "jwt": [{"issuer": ISSUER, "audience": "manta", "jwks_url": "https://issuer.example/keys"}]
    }
}


def _keys(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"authentication": {"api_keys": {"keys": list(entries), **more}}}


def _shown(name: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-api-key", made_key(name).encode())]


def test_a_caller_that_is_known_has_the_same_rights_object(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, _keys(key_entry("alice")))
    rights = guard.identify(_shown("alice"), HTTP)
    assert guard.identify(_shown("alice"), HTTP) is rights
    assert guard.identify(_shown("alice"), Peer("grpc")) is not rights


def test_two_keys_of_a_subject_are_good_at_once(tmp_path: Path) -> None:
    old = key_entry("robot")
    new = {**key_entry("other"), "subject": "robot"}
    guard = guard_of(tmp_path, _keys(old, new))
    assert guard.identify(_shown("robot"), HTTP) is guard.identify(_shown("other"), HTTP)


def test_a_key_is_good_until_it_expires_though_it_was_seen_before(tmp_path: Path) -> None:
    clock = Clock()
    entry = key_entry("alice", expires="2027-01-15T08:00:10Z")
    guard = guard_of(tmp_path, _keys(entry), clock)
    expires_s = guard.identify(_shown("alice"), HTTP).caller.expires_s
    clock.now_s = expires_s - 0.001
    guard.identify(_shown("alice"), HTTP)
    clock.now_s = expires_s
    with pytest.raises(UnauthenticatedError, match="expired"):
        guard.identify(_shown("alice"), HTTP)


def test_a_new_policy_holds_at_once_for_keys_seen_before(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, _keys(key_entry("alice")))
    before = guard.identify(_shown("alice"), HTTP)
    file = write_policy(tmp_path, _keys(key_entry("alice", revoked=True)))
    guard.take(load_policy(str(file)))
    assert guard.revision > before.revision
    with pytest.raises(UnauthenticatedError):
        guard.identify(_shown("alice"), HTTP)


def test_a_bad_key_that_was_remembered_is_good_once_the_policy_has_it(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, _keys(key_entry("alice")))
    with pytest.raises(UnauthenticatedError):
        guard.identify(_shown("bob"), HTTP)
    file = write_policy(tmp_path, _keys(key_entry("alice"), key_entry("bob")))
    guard.take(load_policy(str(file)))
    assert guard.identify(_shown("bob"), HTTP).caller.subject == "bob"


def test_what_is_remembered_is_bounded_and_guesses_push_nobody_out(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, _keys(key_entry("alice")))
    guard.identify(_shown("alice"), HTTP)
    for number in range(3 * guard_module._MOST_BAD):
        with pytest.raises(UnauthenticatedError):
            guard.identify([(b"x-api-key", b"mk_%d" % number)], HTTP)
    assert len(guard._bad) == guard_module._MOST_BAD
    assert len(guard._known) == 1


def test_guesses_at_chosen_keys_are_bounded_in_time(tmp_path: Path) -> None:
    clock = Clock()
    entry = {"subject": "old-client", "hash": hash_chosen("secret word", b"s" * 16)}
    guard = guard_of(tmp_path, _keys(entry), clock)
    shown = [(b"x-api-key", b"secret word")]
    assert guard.identify(shown, HTTP).caller.subject == "old-client"
    refused: list[type[TritonError]] = []
    for number in range(40):
        try:
            guard.identify([(b"x-api-key", b"guess %d" % number)], HTTP)
        except TritonError as error:
            refused.append(type(error))
    assert 10 <= refused.count(UnauthenticatedError) <= 16
    assert refused[-1] is ResourceExhaustedError
    # Who was known goes on, and later guesses are looked at again.
    guard.identify(shown, HTTP)
    clock.now_s += 60
    with pytest.raises(UnauthenticatedError):
        guard.identify([(b"x-api-key", b"guess 41")], HTTP)


def test_tokens_wait_for_keys_that_are_not_fetched_yet(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, FETCHED)
    asked: list[str] = []
    guard.on_unknown_key = asked.append
    with pytest.raises(UnavailableError):
        guard.identify(bearer(SIGNER.token()), HTTP)
    assert asked == [ISSUER]
    guard.take_signing_keys(guard.fetched_issuers[0], read_signing_keys(SIGNER.jwks(), "x"))
    assert guard.identify(bearer(SIGNER.token()), HTTP).caller.subject == "alice"


def test_an_issuers_new_keys_end_tokens_of_its_old_ones(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, FETCHED)
    guard.take_signing_keys(guard.fetched_issuers[0], read_signing_keys(SIGNER.jwks(), "x"))
    token = SIGNER.token()
    guard.identify(bearer(token), HTTP)
    revision = guard.revision
    guard.take_signing_keys(guard.fetched_issuers[0], read_signing_keys(SIGNER.jwks(), "x"))
    assert guard.revision == revision
    new = TokenIssuer("two")
    guard.take_signing_keys(guard.fetched_issuers[0], read_signing_keys(new.jwks(), "x"))
    with pytest.raises(UnauthenticatedError):
        guard.identify(bearer(token), HTTP)
    guard.identify(bearer(new.token()), HTTP)


def test_users_of_this_machine_are_known_by_their_numbers(tmp_path: Path) -> None:
    rules = [{"uid": 1000, "subject": "dev"}, {"gid": 50, "groups": ["staff"]}]
    guard = guard_of(tmp_path, {"authentication": {"unix_peers": rules}})
    assert guard.identify([], Peer("http", uid=1000, gid=1000)).caller.subject == "dev"
    staff = guard.identify([], Peer("http", uid=7, gid=50)).caller
    assert (staff.subject, staff.groups, staff.method) == ("uid:7", {"staff"}, "unix-socket")
    with pytest.raises(UnauthenticatedError):
        guard.identify([], Peer("http", uid=8, gid=8))


def test_restricted_apis_are_a_special_case_of_a_policy(tmp_path: Path) -> None:
    """``--http-restricted-api=model-repository,model-config:admin-key=secret`` as a policy."""
    entry = {"subject": "admin", "hash": hash_chosen("secret", b"s" * 16)}
    policy = {
        **_keys(entry, headers=["admin-key", "triton-grpc-protocol-admin-key"], bearer_prefix=""),
        "public": ["health", "infer", "statistics", "settings", "shared-memory", "metrics"],
        "grants": [{"to": {"subjects": ["admin"]}, "roles": ["control", "metadata"]}],
    }
    guard = guard_of(tmp_path, policy)
    nobody = guard.identify([], HTTP)
    assert nobody.may(Role.INFER, "simple")
    assert not nobody.may(Role.CONTROL)
    for protocol, name in (("http", b"admin-key"), ("grpc", b"triton-grpc-protocol-admin-key")):
        admin = guard.identify([(name, b"secret")], Peer(protocol))
        assert admin.may(Role.CONTROL, "simple")
        assert admin.may(Role.INFER, "simple")


@settings(max_examples=examples(60), deadline=None)
@given(
    lives_s=st.lists(st.integers(-50, 200), min_size=1, max_size=4),
    looks=st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 60)), max_size=12),
)
def test_no_cached_answer_outlives_its_expiry(
    tmp_path_factory: pytest.TempPathFactory,
    lives_s: list[int],
    looks: list[tuple[int, int]],
) -> None:
    folder = tmp_path_factory.mktemp("policy")
    (folder / "jwks.json").write_bytes(SIGNER.jwks())
    issuer = {"issuer": ISSUER, "audience": "manta", "jwks_file": "jwks.json", "clock_skew_s": 0}
    clock = Clock()
    guard = guard_of(folder, {"authentication": {"jwt": [issuer]}}, clock)
    tokens = [SIGNER.token(exp=NOW_S + life_s, iat=None) for life_s in lives_s]
    for at, passed_s in looks:
        # Also backwards, as clocks that are set.
        clock.now_s += passed_s
        which = at % len(tokens)
        try:
            guard.identify(bearer(tokens[which]), HTTP)
        except UnauthenticatedError:
            is_good = False
        else:
            is_good = True
        if clock.now_s >= NOW_S + lives_s[which]:
            assert not is_good


def test_headers_of_keys_are_named_in_lower_case(tmp_path: Path) -> None:
    keys = _keys(key_entry("alice"), headers=["X-One", "x-two"])
    assert guard_of(tmp_path, keys).credential_headers == {b"x-one", b"x-two"}
    assert guard_of(tmp_path, FETCHED).credential_headers == frozenset()


def test_a_key_or_token_that_is_too_long_or_stands_twice_is_refused(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, {"authentication": {**_keys(key_entry("alice"))["authentication"]}})
    for headers, counted in (
        ([(b"x-api-key", b"k" * 1025)], ("api-key", "too-large")),
        ([(b"x-api-key", b" ")], ("api-key", "malformed")),
        ([(b"x-api-key", b"one"), (b"x-api-key", b"two")], ("api-key", "ambiguous")),
        ([(b"authorization", b"Bearer a"), (b"Authorization", b"Bearer b")], ("jwt", "ambiguous")),
    ):
        before = guard.counters.refusals.copy()
        with pytest.raises(UnauthenticatedError):
            guard.identify(headers, HTTP)
        assert guard.counters.refusals - before == {counted: 1}


def test_a_key_that_was_refused_is_refused_again_without_a_look(tmp_path: Path) -> None:
    clock = Clock()
    entry = {"subject": "old-client", "hash": hash_chosen("secret word", b"s" * 16)}
    guard = guard_of(tmp_path, _keys(entry), clock)
    for _ in range(40):  # more than looks may be had
        with pytest.raises(UnauthenticatedError):
            guard.identify([(b"x-api-key", b"guess")], HTTP)


def test_denials_are_counted_by_protocol_and_other_outcomes_are_not(tmp_path: Path) -> None:
    guard = guard_of(tmp_path, _keys(key_entry("alice")))
    rights = guard.identify(_shown("alice"), HTTP)
    guard.note(rights, HTTP, "infer", "m", "denied")
    guard.note(None, Peer("grpc"), "infer", "m", "denied")
    guard.note(rights, HTTP, "infer", "m", "allowed")
    assert guard.counters.denials == {"http": 1, "grpc": 1}


def test_the_audit_log_names_the_caller_and_the_counters_tell_what_it_lost(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    policy = _keys(key_entry("alice")) | {"audit": {"file": str(file), "outcomes": ["denied"]}}
    guard = guard_module.make_guard(str(write_policy(tmp_path, policy)), Clock())
    guard.note(guard.identify(_shown("alice"), HTTP), HTTP, "infer", "m", "denied")
    guard.note(None, HTTP, "infer", "m", "denied")
    guard.close()
    first, second = map(json.loads, file.read_text().splitlines())
    assert (first["subject"], first["model"], first["outcome"]) == ("alice", "m", "denied")
    assert second.get("subject", "") == ""
    assert guard.counters.audit_dropped == 0
