# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.access.contracts import Role
from deployments.access.keys import hash_chosen
from deployments.access.policy_file import read_key_file, read_policy
from deployments.access.policy_files import load_policy
from deployments.access.reading import PolicyError
from tests.support.access import key_entry
from tests.support.examples import examples

HASH = "sha256:" + "ab" * 32
KEYS = "authentication: {api_keys: {keys: [{subject: a, hash: 'HASH'EXTRA}]}}"
JWT = "authentication: {jwt: [{issuer: 'https://i', audience: m, jwks_file: k, EXTRA}]}"


def _key(extra: str) -> str:
    return KEYS.replace("HASH", HASH).replace("EXTRA", f", {extra}" if extra else "")


# By what is wrong: the file, and what the message has to say beside its name.
WRONG: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["it is empty"]),
    "no mapping": ("[1]", ["got a list, expected a mapping"]),
    "no yaml": ("a: [", ["is not YAML", "line 1"]),
    "a tag of Python": ("a: !!python/object:os.system {}", ["is not YAML"]),
    "twice": ("public: []\npublic: []", ["key 'public' stands twice", "line 2"]),
    "section": ("grant: []", ["grant: unknown key 'grant'", "did you mean 'grants'?"]),
    "way": ("authentication: {keys: []}", ["authentication.keys: unknown key"]),
    "role": (
        "grants: [{to: {subjects: a}, roles: [infre]}]",
        ["grants[0].roles[0]: unknown role 'infre'", "did you mean 'infer'?"],
    ),
    "role of its own": ("roles: {infer: [control]}", ["'infer' is a role of its own"]),
    "nobody": ("grants: [{to: {}, roles: infer}]", ["grants[0].to: nobody is named"]),
    "no roles": ("grants: [{to: {groups: a}}]", ["grants[0]: 'roles' is missing"]),
    "no roles in it": (
        "grants: [{to: {groups: a}, roles: []}]",
        ["got 0 entries, expected a list of at least one entry"],
    ),
    "protocol": (
        "grants: [{to: {groups: a}, roles: infer, protocols: [htpp]}]",
        ["unknown protocol 'htpp', expected grpc or http or metrics", "did you mean 'http'?"],
    ),
    "number for a name": (
        "grants: [{to: {subjects: [5]}, roles: infer}]",
        ["grants[0].to.subjects[0]: got 5, expected a text", "put it in quotes"],
    ),
    "line feed": (
        'grants: [{to: {subjects: ["a\\nb"]}, roles: infer}]',
        [r"got 'a\nb', expected a text of printable characters"],
    ),
    "hash": (_key("").replace(HASH, "mk_secret"), ["hash: the hash of a key is wrong"]),
    "weak scrypt": (_key("").replace(HASH, "scrypt:1:8:1:00:00"), ["the hash of a key is wrong"]),
    "expiry": (_key("expires: soon"), ["got 'soon', expected a time such as"]),
    "revoked": (_key("revoked: 1"), ["keys[0].revoked: got 1, expected true or false"]),
    "no keys": ("authentication: {api_keys: {}}", ["there are no keys"]),
    "header": (
        "authentication: {api_keys: {headers: [Authorization], keys: []}}",
        ["headers[0]: got 'Authorization'", "is looked at anyway"],
    ),
    "none": (JWT.replace("EXTRA", "algorithms: [none]"), ["unknown algorithm 'none'"]),
    "symmetric": (JWT.replace("EXTRA", "algorithms: HS256"), ["unknown algorithm 'HS256'"]),
    "two sources": (JWT.replace("EXTRA", "discovery: true"), ["got 2 sources", "expected one"]),
    "password in a URL": (
        JWT.replace("jwks_file: k", "jwks_url: 'https://u:pw@h/k'").replace(", EXTRA", ""),
        ["expected a URL"],
    ),
    "skew": (
        JWT.replace("EXTRA", "clock_skew_s: -1"),
        ["got -1, expected a number from 0"],
    ),
    "certificate": ("authentication: {certificates: [{san: x}]}", ["san: got 'x', expected dns:"]),
    "user": ("authentication: {unix_peers: [{subject: a}]}", ["'uid' or 'gid' is missing"]),
    "unknown tenant": (
        "tenants: {vision: {}}\ngrants: [{to: {tenants: visoin}, roles: infer}]",
        ["tenant 'visoin'", "did you mean 'vision'?"],
    ),
    "quota": (
        "tenants: {a: {requests_per_s: 0}}",
        ["tenants.a.requests_per_s: got 0", "expected a number above 0"],
    ),
    "burst": ("tenants: {a: {burst: 2}}", ["tenants.a.burst", "give 'requests_per_s'"]),
    "scope": ("tenants: {a: {scope: world}}", ["unknown scope 'world'"]),
    "share": ("audit: {allowed_share: 2}", ["expected a number from 0 to 1"]),
    "outcome": ("audit: {outcomes: [maybe]}", ["unknown outcome 'maybe'"]),
    "infinite": ("tenants: {a: {weight: .inf}}", ["got inf"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_file_place_and_remedy(case: str) -> None:
    text, parts = WRONG[case]
    with pytest.raises(PolicyError) as raised:
        read_policy(text, "p.yaml")
    message = raised.value.message
    assert message.startswith("access policy file 'p.yaml'")
    for part in parts:
        assert part in message
    assert "secret" not in message
    assert "pw@" not in message


def test_a_whole_policy_is_read() -> None:
    policy = read_policy(
        """
        authentication:
          api_keys: {file: keys.yaml, directory: [keys], headers: X-Key, bearer_prefix: ""}
          jwt:
            - {issuer: "https://i", audience: [a, b], discovery: true, claims: {groups: roles}}
          anonymous: {groups: guests}
        roles: {reader: [metadata, statistics]}
        grants:
          - {to: {groups: guests}, roles: [reader, infer], models: ["demo_*"], protocols: http}
        public: [health, metrics]
        tenants: {vision: {requests_per_s: 5, burst: 10, concurrent_requests: 2, scope: cluster}}
        audit: {file: /var/log/audit, outcomes: [allowed, failed], allowed_share: 0.1}
        """,
        "p.yaml",
    )
    assert policy.api_keys is not None
    assert policy.api_keys.headers == ("x-key",)
    assert policy.issuers[0].claims.groups == "roles"
    assert policy.issuers[0].is_fetched
    assert policy.anonymous.groups == {"guests"}
    assert policy.grants[0].roles == {Role.METADATA, Role.STATISTICS, Role.INFER}
    assert policy.public == {Role.HEALTH, Role.METRICS}
    assert policy.tenants["vision"] == {
        "requests_per_s": 5.0,
        "burst": 10.0,
        "concurrent_requests": 2,
        "scope": "cluster",
    }
    assert policy.audit is not None


def test_the_policies_in_the_documentation_are_policies() -> None:
    page = (Path(__file__).parents[4] / "docs" / "access.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    texts = [block for block in blocks if block.startswith("authentication:")]
    assert len(texts) == 2
    scrypt = hash_chosen("secret word", b"s" * 16)
    for text in texts:
        policy = read_policy(text.replace("sha256:...", HASH).replace("scrypt:...", scrypt), "doc")
        assert policy.grants


def test_the_user_with_the_number_0_is_one_of_this_machine() -> None:
    policy = read_policy("authentication: {unix_peers: [{uid: 0, subject: root}]}", "p.yaml")
    (rule,) = policy.unix_peers
    assert (rule.uid, rule.identity.subject) == (0, "root")


def test_a_file_of_keys_may_have_one_alone() -> None:
    policy = read_policy("{}", "p.yaml")
    (key,) = read_key_file(f"{{subject: a, hash: '{HASH}'}}", "k.yaml", policy)
    assert (key.identity.subject, key.digest) == ("a", bytes.fromhex("ab" * 32))


def test_a_chosen_key_has_no_digest_by_which_it_is_found() -> None:
    policy = read_policy("{}", "p.yaml")
    chosen = hash_chosen("secret word", b"s" * 16)
    (key,) = read_key_file(f"[{{subject: a, hash: '{chosen}'}}]", "k.yaml", policy)
    assert (key.digest, key.scrypt is None) == (b"", False)


def test_a_tenant_of_a_key_that_the_policy_does_not_know_is_named_with_the_file() -> None:
    policy = read_policy("tenants: {vision: {}}", "p.yaml")
    with pytest.raises(PolicyError, match=r"file 'k\.yaml'.*audio"):
        read_key_file(f"[{{subject: a, hash: '{HASH}', tenant: audio}}]", "k.yaml", policy)


def test_a_pipe_in_place_of_a_policy_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    os.mkfifo(path)
    with pytest.raises(PolicyError, match="is no file"):
        load_policy(str(path))


def test_an_empty_policy_allows_health_only() -> None:
    assert read_policy("{}", "p.yaml").public == {Role.HEALTH}


def test_an_audit_log_without_a_file_goes_to_stderr() -> None:
    audit = read_policy("audit: {outcomes: [denied]}", "p.yaml").audit
    assert audit is not None
    assert (audit.file, audit.allowed_share) == ("", 1.0)


def test_no_secret_is_in_what_a_policy_is_shown_as() -> None:
    policy = read_policy(yaml.safe_dump({"authentication": {"api_keys": {"keys": [
        key_entry("alice")
    ]}}}), "p.yaml")  # fmt: skip
    assert "alice" in repr(policy)
    assert key_entry("alice")["hash"][7:20] not in repr(policy)
    assert "digest" not in repr(policy)


def test_aliases_that_would_be_huge_are_not_unfolded() -> None:
    bomb = "a: &a [x]\n" + "".join(
        f"b{n}: &b{n} [{', '.join([f'*{previous}'] * 9)}]\n"
        for n, previous in enumerate(["a", *(f"b{n}" for n in range(30))])
    )
    with pytest.raises(PolicyError):
        read_policy(bomb, "p.yaml")


@pytest.mark.slow
def test_deep_nesting_is_refused() -> None:
    with pytest.raises(PolicyError):
        read_policy("[" * 5_000, "p.yaml")


WORDS = st.sampled_from(
    (
        *("authentication", "api_keys", "keys", "jwt", "certificates", "unix_peers", "anonymous"),
        *("roles", "grants", "public", "tenants", "audit", "to", "subjects", "groups", "models"),
        *("issuer", "audience", "jwks_url", "jwks_file", "san", "uid", "hash", "subject", "infer"),
        *(
            "expires",
            "claims",
            "file",
            "weight",
            "scope",
            "outcomes",
            "protocols",
            "<<",
            "2001-1-1",
        ),
    )
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), WORDS, st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(WORDS, SCALARS), inner, max_size=4),
    ),
    max_leaves=20,
)


def _try(text: str) -> None:
    message = ""
    try:
        policy = read_policy(text, "p.yaml")
        read_key_file(text, "k.yaml", policy)
    except PolicyError as error:
        message = error.message
    assert "\n" not in message
    assert len(message) < 1500


@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_any_values_are_a_policy_or_an_error_of_one_line(value: dict[Any, Any]) -> None:
    _try(yaml.safe_dump(value, allow_unicode=True))


@settings(max_examples=examples(400), deadline=None)
@given(
    st.text(
        st.characters(codec="utf-8") | st.sampled_from("{}[]:,-?&*!|>'\"%@`\n #<=.~"), max_size=60
    )
)
def test_any_text_is_a_policy_or_an_error_of_one_line(text: str) -> None:
    _try(text)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from([text for text, _ in WRONG.values()]), st.data())
def test_a_policy_with_a_change_is_a_policy_or_an_error(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    _try(text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 2)) :])
