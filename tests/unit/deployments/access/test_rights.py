# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import PermissionDeniedError
from deployments.access.contracts import Role
from deployments.access.patterns import Patterns
from deployments.access.policy import PROTOCOLS, AccessPolicy, Grant
from deployments.access.rights import PolicyRights
from deployments.security.caller import Caller
from tests.support.examples import examples

NAMES = st.text("ab*?", min_size=1, max_size=3)
WORDS = st.frozensets(st.sampled_from(("a", "b")), max_size=2)
GRANTS = st.builds(
    Grant,
    subjects=st.builds(Patterns, st.lists(NAMES, max_size=2).map(tuple)),
    groups=WORDS,
    tenants=WORDS,
    roles=st.frozensets(st.sampled_from(list(Role)), min_size=1, max_size=2),
    is_for_authenticated=st.booleans(),
    models=st.builds(Patterns, st.lists(NAMES, min_size=1, max_size=2).map(tuple)),
    protocols=st.frozensets(st.sampled_from(PROTOCOLS), min_size=1),
)
CALLERS = st.builds(
    Caller,
    subject=st.sampled_from(("a", "ab", "b")),
    tenant=st.sampled_from(("", "a")),
    method=st.sampled_from(("jwt", "anonymous")),
    groups=WORDS,
)


def _rights(caller: Caller, *grants: Grant, protocol: str = "http") -> PolicyRights:
    return PolicyRights(caller, 1, AccessPolicy(grants=grants), protocol)


@settings(max_examples=examples(200))
@given(
    caller=CALLERS,
    grants=st.lists(GRANTS, max_size=4),
    more=GRANTS,
    protocol=st.sampled_from(PROTOCOLS),
    role=st.sampled_from(list(Role)),
    model=st.sampled_from(("", "a", "ab", "ba", "*")),
)
def test_another_grant_takes_nothing_away(
    caller: Caller, grants: list[Grant], more: Grant, protocol: str, role: Role, model: str
) -> None:
    before = _rights(caller, *grants, protocol=protocol)
    after = _rights(caller, *grants, more, protocol=protocol)
    assert after.may(role, model) >= before.may(role, model)
    # What is remembered is what was decided.
    assert before.may(role, model) == before.may(role, model)
    # A model that may be asked for is one of any.
    assert before.may(role) >= before.may(role, model)


@settings(max_examples=examples(100))
@given(caller=CALLERS, grants=st.lists(GRANTS, max_size=4))
def test_without_a_grant_for_it_nothing_is_allowed(caller: Caller, grants: list[Grant]) -> None:
    granted = {role for grant in grants for role in grant.roles} | {Role.HEALTH}
    rights = _rights(caller, *grants)
    assert not any(rights.may(role, "a") for role in Role if role not in granted)


def _grant(models: str, *, subject: str = "a", protocols: tuple[str, ...] = PROTOCOLS) -> Grant:
    return Grant(
        Patterns((subject,)),
        frozenset(),
        frozenset(),
        frozenset((Role.INFER,)),
        models=Patterns((models,)),
        protocols=frozenset(protocols),
    )


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("simple", "simple", True),
        ("simple", "simple2", False),
        ("sim*", "simple", True),
        ("s?mple", "simple", True),
        ("s?mple", "smple", False),
        ("[a-z]", "a", False),
        ("[a-z]", "[a-z]", True),
        ("a.b", "axb", False),
        ("*", "a\nb", True),
        ("a*", "a\nb", True),
        ("?", "*", False),
        ("*" * 40 + "a", "b" * 500, False),
    ],
)
def test_models_are_matched_by_stars_and_question_marks_alone(
    pattern: str, name: str, is_match: bool
) -> None:
    assert _rights(Caller("a"), _grant(pattern)).may(Role.INFER, name) is False
    assert _rights(Caller("a", method="jwt"), _grant(pattern)).may(Role.INFER, name) is is_match


def test_a_name_of_any_length_is_decided_and_few_are_remembered() -> None:
    rights = _rights(Caller("a", method="jwt"), _grant("m*"))
    assert not rights.may(Role.INFER, "m" * 100_000)
    for number in range(5000):
        assert rights.may(Role.INFER, f"m{number}")
    assert len(rights._decisions) <= 1024


def test_a_grant_is_for_its_ports_only() -> None:
    grant = _grant("*", protocols=("grpc",))
    caller = Caller("a", method="jwt")
    assert _rights(caller, grant, protocol="grpc").may(Role.INFER, "m")
    assert not _rights(caller, grant, protocol="http").may(Role.INFER, "m")


def test_a_denial_says_what_is_needed_and_nothing_of_the_model() -> None:
    rights = _rights(Caller("a", method="jwt"), _grant("m"))
    texts = set()
    for model in ("there", "not-there"):
        with pytest.raises(PermissionDeniedError) as raised:
            rights.check(Role.INFER, model)
        texts.add(raised.value.message)
    assert len(texts) == 1
    assert "there" not in texts.pop()


def test_patterns_of_stars_alone_match_any_name() -> None:
    assert [Patterns((text,)).is_any for text in ("*", "**", "a*", "?", "* ")] == [
        *(True, True),
        *(False, False, False),
    ]
    assert Patterns(("a", "*")).is_any
    assert not Patterns(()).is_any
