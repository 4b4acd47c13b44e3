# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a policy file, up to their bounds, and how an error shows what was given."""

import math
from collections.abc import Callable
from datetime import date, datetime

import pytest

from deployments.access.identity_sections import read_api_keys, read_certificates, read_issuers
from deployments.access.keys import read_hash
from deployments.access.policy import Identity
from deployments.access.policy_file import read_key_file, read_policy
from deployments.access.reading import Item, PolicyError, read_yaml, required, shown


def item(value: object, path: str = "a.b") -> Item:
    return Item(value, path, "p.yaml")


# What reads a value, what that is called, values at its bounds, and such beyond them.
BOUNDS: dict[str, tuple[Callable[[Item], object], str, list[object], list[object]]] = {
    "text": (Item.text, "a text", ["a", "a" * 1024], ["", "a" * 1025, "a\n", 5, None]),
    "short text": (lambda each: each.text(3), "a text", ["abc"], ["abcd"]),
    "flag": (Item.flag, "true or false", [True, False], [1, "true", None]),
    "number": (
        Item.number,
        "a number of at least 0",
        [0, 1e308, 0.5],
        [-1e-9, math.inf, math.nan, True, "1", 10**400],
    ),
    "number between": (
        lambda each: each.number(1, 2),
        "a number of at least 1 and at most 2",
        [1, 2],
        [0.99, 2.01],
    ),
    "whole": (
        Item.whole,
        "a whole number from 0 to 4294967295",
        [0, 2**32 - 1],
        [-1, 2**32, 1.0, True, "1"],
    ),
    "list": (Item.items, "a list", [[], [1]], [{}, "a", None]),
    "mapping": (Item.mapping, "a mapping", [{}, {"a": 1}], [[], "a", None]),
    "entries": (Item.one_or_more, "at least one entry", ["a", ["a"]], [[]]),
    "time": (
        Item.time_s,
        "a time such as 2027-01-31T12:00:00Z",
        ["2027-01-31", date(2027, 1, 31)],
        ["soon", 5, None],
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_value_is_taken_up_to_its_bounds_and_no_further(name: str) -> None:
    read, expected, accepted, refused = BOUNDS[name]
    for value in accepted:
        read(item(value))
    for value in refused:
        with pytest.raises(PolicyError) as caught:
            read(item(value))
        assert caught.value.message.startswith(
            f"access policy file 'p.yaml': a.b: got {shown(value)}, expected {expected}"
        ), value


@pytest.mark.parametrize("key", ["", 5, None, True])
def test_a_key_that_is_no_text_is_refused(key: object) -> None:
    with pytest.raises(PolicyError, match=r"key .* is not a text; put it in quotes"):
        item({key: 1}).mapping()


def test_times_without_a_zone_are_of_utc() -> None:
    noon_s = 1_801_396_800.0
    assert item("2027-01-31T12:00:00").time_s() == noon_s
    assert item(datetime(2027, 1, 31, 12)).time_s() == noon_s  # noqa: DTZ001 - as YAML makes them
    assert item("2027-01-31T13:00:00+01:00").time_s() == noon_s
    assert item(datetime.fromisoformat("2027-01-31T13:00:00+01:00")).time_s() == noon_s
    assert item(date(2027, 1, 31)).time_s() == noon_s - 12 * 3600


def test_an_error_names_the_file_the_place_and_the_remedy() -> None:
    assert item(1).error("it is wrong", "mend it").message == (
        "access policy file 'p.yaml': a.b: it is wrong; mend it"
    )
    assert item(1, "").error("it is wrong").message == ("access policy file 'p.yaml': it is wrong")
    with pytest.raises(PolicyError) as caught:
        required(item({}), {}, "issuer", "say which")
    assert (
        caught.value.message == "access policy file 'p.yaml': a.b: 'issuer' is missing; say which"
    )
    with pytest.raises(PolicyError) as caught:
        item(5).choice(("a", "b"), "word")
    assert (
        caught.value.message == "access policy file 'p.yaml': a.b: unknown word 5, expected a or b"
    )


def test_places_are_named_from_the_top_of_the_file() -> None:
    read = read_yaml("a: {b: [x, y]}", "p.yaml")
    found = read.mapping()["a"].mapping()["b"].items()
    assert [(each.value, each.path, each.file) for each in found] == [
        ("x", "a.b[0]", "p.yaml"),
        ("y", "a.b[1]", "p.yaml"),
    ]
    with pytest.raises(PolicyError, match=r"^access policy file 'keys.yaml': got 5, expected a"):
        read_key_file("5", "keys.yaml", read_policy("{}", "p.yaml"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": "secret"}, "a mapping"),
        (["secret"], "a list"),
        (None, "nothing"),
        (b"secret", "binary data"),
        ("a" * 60, "'" + "a" * 60 + "'"),
        ("a" * 61, "'" + "a" * 60 + "...'"),
        ("a\nb", r"'a\nb'"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        (date(2027, 1, 31), "2027-01-31"),
        (2**64 - 1, str(2**64 - 1)),
        (2**64, "a huge number"),
        (-(2**64), "a huge number"),
        ({1}, "a set"),
    ],
)
def test_a_value_is_shown_on_one_line_and_nothing_of_what_is_in_it(
    value: object, text: str
) -> None:
    assert shown(value) == text


HASH = "sha256:" + "ab" * 32


def test_what_is_not_given_of_a_way_in_is_the_default() -> None:
    keys = read_api_keys(item({"keys": [{"subject": "a", "hash": HASH}]}))
    (key,) = keys.keys
    assert (keys.headers, keys.bearer_prefix, keys.files, keys.directories) == (
        ("x-api-key",),
        "mk_",
        (),
        (),
    )
    assert (key.identity, key.expires_s, key.is_revoked) == (Identity("a", ""), math.inf, False)
    given = {"issuer": "https://i", "audience": "a", "jwks_url": "http://h/k"}
    (issuer,) = read_issuers(item([given]))
    assert (issuer.algorithms, issuer.refresh_s, issuer.least_refresh_s, issuer.clock_skew_s) == (
        ("RS256", "ES256"),
        300.0,
        10.0,
        30.0,
    )
    assert (issuer.subject_claim, issuer.tenant_claim, issuer.groups_claim) == ("sub", "", "")
    assert (issuer.groups, issuer.subject_prefix, issuer.jwks_file) == (frozenset(), "", "")
    (rule,) = read_certificates(item([{"san": "dns:*.example.org"}]))
    assert rule.identity == Identity("", "")


def test_names_of_headers_have_up_to_128_characters() -> None:
    def headers(name: str) -> tuple[str, ...]:
        return read_api_keys(item({"headers": [name], "directory": "d"})).headers

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
    given = item([{"issuer": "https://i", "audience": "a", "jwks_url": url}])
    if is_sound:
        assert read_issuers(given)[0].jwks_url == url
        return
    with pytest.raises(PolicyError):
        read_issuers(given)


def chosen(cost: int = 2, blocks: int = 1, parallel: int = 1, salt: int = 16) -> str:
    return f"scrypt:{cost}:{blocks}:{parallel}:{'00' * salt}:{'00' * 32}"


def test_more_than_eight_chosen_keys_are_refused() -> None:
    keys = [{"subject": f"s{at}", "hash": chosen()} for at in range(9)]
    assert len(read_api_keys(item({"keys": keys[:8]})).keys) == 8
    with pytest.raises(PolicyError, match=r"a\.b\.keys: 9 keys are hashed with scrypt"):
        read_api_keys(item({"keys": keys}))


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
