# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a policy file that have rules of their own, and what is read where none is given."""

import math
from datetime import date, datetime
from typing import Any

import pytest
import yaml

from deployments.access.keys import read_hash
from deployments.access.policy import AccessPolicy, ApiKeyRules, Claims, Identity
from deployments.access.policy_file import read_key_file, read_policy
from deployments.access.reading import PolicyError, Time
from deployments.settings.documents import shown


def policy(value: dict[str, Any]) -> AccessPolicy:
    return read_policy(yaml.safe_dump(value), "p.yaml")


def way(name: str, value: object) -> AccessPolicy:
    return policy({"authentication": {name: value}})


def api_keys(value: object) -> ApiKeyRules:
    rules = way("api_keys", value).api_keys
    assert rules is not None
    return rules


def test_times_without_a_zone_are_of_utc() -> None:
    noon_s = 1_801_396_800.0
    assert Time.read("2027-01-31T12:00:00") == noon_s
    assert Time.read(datetime(2027, 1, 31, 12)) == noon_s  # noqa: DTZ001 - as YAML makes them
    assert Time.read("2027-01-31T13:00:00+01:00") == noon_s
    assert Time.read(datetime.fromisoformat("2027-01-31T13:00:00+01:00")) == noon_s
    assert Time.read(date(2027, 1, 31)) == noon_s - 12 * 3600


@pytest.mark.parametrize("value", ["soon", 5, None])
def test_what_is_no_time_is_shown(value: object) -> None:
    with pytest.raises(PolicyError) as caught:
        api_keys({"keys": [{"subject": "a", "hash": HASH, "expires": value}]})
    assert caught.value.message.startswith(
        "access policy file 'p.yaml': authentication.api_keys.keys[0].expires: got"
        f" {shown(value)}, expected a time such as 2027-01-31T12:00:00Z"
    )


def test_a_file_of_keys_is_named_in_its_errors() -> None:
    with pytest.raises(PolicyError, match=r"^access policy file 'keys.yaml': got 5, expected a"):
        read_key_file("5", "keys.yaml", policy({}))


HASH = "sha256:" + "ab" * 32


def test_what_is_not_given_of_a_way_in_is_the_default() -> None:
    keys = api_keys({"keys": [{"subject": "a", "hash": HASH}]})
    (key,) = keys.keys
    assert (keys.headers, keys.bearer_prefix, keys.files, keys.directories) == (
        ("x-api-key",),
        "mk_",
        (),
        (),
    )
    assert (key.identity, key.expires_s, key.is_revoked) == (Identity("a", ""), math.inf, False)
    given = {"issuer": "https://i", "audience": "a", "jwks_url": "http://h/k"}
    (issuer,) = way("jwt", [given]).issuers
    assert (issuer.algorithms, issuer.refresh_s, issuer.least_refresh_s, issuer.clock_skew_s) == (
        ("RS256", "ES256"),
        300.0,
        10.0,
        30.0,
    )
    assert issuer.claims == Claims("sub")
    assert (issuer.groups, issuer.subject_prefix, issuer.jwks_file) == ((), "", "")
    (rule,) = way("certificates", [{"san": "dns:*.example.org"}]).certificates
    assert rule.identity == Identity("", "")


def test_names_of_headers_have_up_to_128_characters() -> None:
    def headers(name: str) -> tuple[str, ...]:
        return api_keys({"headers": [name], "directory": "d"}).headers

    assert headers("X" * 128) == ("x" * 128,)
    for wrong in ("x" * 129, "x y", "Host", "content-length"):
        with pytest.raises(PolicyError):
            headers(wrong)


@pytest.mark.parametrize(
    ("url", "is_sound"),
    [
        ("http://h/" + "k" * 2039, True),
        ("http://h/" + "k" * 2040, False),
        ("https://h:1/k", True),
        ("https://h:0/k", False),
        ("https://h:x/k", False),
        ("ftp://h/k", False),
        ("https:///k", False),
        ("https://user@h/k", False),
    ],
)
def test_the_address_of_keys_is_one_of_the_web(url: str, is_sound: bool) -> None:
    given = [{"issuer": "https://i", "audience": "a", "jwks_url": url}]
    if is_sound:
        assert way("jwt", given).issuers[0].jwks_url == url
        return
    with pytest.raises(PolicyError):
        way("jwt", given)


def chosen(cost: int = 2, blocks: int = 1, parallel: int = 1, salt: int = 16) -> str:
    return f"scrypt:{cost}:{blocks}:{parallel}:{'00' * salt}:{'00' * 32}"


def test_more_than_eight_chosen_keys_are_refused() -> None:
    keys = [{"subject": f"s{at}", "hash": chosen()} for at in range(9)]
    assert len(api_keys({"keys": keys[:8]}).keys) == 8
    with pytest.raises(PolicyError, match=r"authentication\.api_keys\.keys: 9 keys are hashed"):
        api_keys({"keys": keys})


@pytest.mark.parametrize(
    "text",
    [
        chosen(cost=1),
        chosen(cost=3),
        chosen(cost=2**30),
        chosen(blocks=0),
        chosen(cost=2**17, blocks=32),
        chosen(cost=2**17, blocks=17),
        chosen(blocks=33),
        chosen(parallel=2),
        chosen(salt=15),
        chosen(salt=33),
        chosen() + "00",
        "sha256:" + "ab" * 31,
        "sha256:" + "zz" * 32,
        "md5:" + "ab" * 32,
    ],
)
def test_a_hash_that_is_weak_or_costs_too_much_is_refused(text: str) -> None:
    read_hash(chosen())
    with pytest.raises(ValueError, match="sha256"):
        read_hash(text)
