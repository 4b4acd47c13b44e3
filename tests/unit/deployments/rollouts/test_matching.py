# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.request import ParameterValue
from deployments.rollouts.matching import Matcher, glob, text_of
from deployments.rollouts.spec import Condition, How, Rule, Source
from tests.support.examples import examples


def slow_glob(pattern: str, text: str) -> bool:
    """What a glob means, by its definition."""
    reached = {0}
    for sign in pattern:
        if sign == "*":
            reached = set(range(min(reached), len(text) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(text) and sign in ("?", text[at])}
    return len(text) in reached


@settings(max_examples=examples(400), deadline=None)
@given(st.text("ab*?.\n", max_size=8), st.text("ab.\n", max_size=8))
def test_globs_mean_what_they_say(pattern: str, text: str) -> None:
    assert (glob(pattern).fullmatch(text) is not None) == slow_glob(pattern, text)


def test_a_glob_of_many_stars_is_not_expensive() -> None:
    # A backtracking search would try some 10^40 ways.
    assert glob("*a" * 127 + "*b").fullmatch("a" * 256) is None


def matches(condition: Condition, **request: object) -> bool:
    known: dict[str, object] = {"headers": {}, "parameters": {}, "tenant": "", "sequence": 0}
    return Matcher(Rule("canary", (condition,))).matches(**(known | request))  # type: ignore[arg-type]


def test_a_matcher_tells_the_arm_of_its_rule() -> None:
    assert Matcher(Rule("canary", ())).arm == "canary"


def test_values_too_long_for_a_glob_do_not_match() -> None:
    condition = Condition(Source.TENANT, "", How.GLOB, ("a*",))
    assert matches(condition, tenant="a" * 256)
    assert not matches(condition, tenant="a" * 257)


@pytest.mark.parametrize(
    ("condition", "request_", "expected"),
    [
        (Condition(Source.HEADER, "x", How.EXACT, ("1", "2")), {"headers": {"x": "2"}}, True),
        (Condition(Source.HEADER, "x", How.EXACT, ("1", "2")), {"headers": {"x": "3"}}, False),
        (Condition(Source.HEADER, "x", How.PREFIX, ("ab",)), {"headers": {"x": "abc"}}, True),
        (Condition(Source.HEADER, "x", How.PRESENT), {"headers": {}}, False),
        (Condition(Source.HEADER, "x", How.PRESENT), {"headers": {"x": ""}}, True),
        (Condition(Source.PARAMETER, "p", How.EXACT, ("true",)), {"parameters": {"p": True}}, True),
        (Condition(Source.PARAMETER, "p", How.EXACT, ("7",)), {"parameters": {"p": 7}}, True),
        (Condition(Source.TENANT, "", How.EXACT, ("red",)), {"tenant": "red"}, True),
        (Condition(Source.TENANT, "", How.PRESENT), {"tenant": ""}, False),
        (Condition(Source.SEQUENCE, "", How.EXACT, ("42",)), {"sequence": 42}, True),
        (Condition(Source.SEQUENCE, "", How.PRESENT), {"sequence": 0}, False),
    ],
)
def test_a_condition_looks_at_its_place(
    condition: Condition, request_: dict[str, object], expected: bool
) -> None:
    assert matches(condition, **request_) is expected


def test_all_conditions_of_a_rule_have_to_hold() -> None:
    conditions = (
        Condition(Source.TENANT, "", How.EXACT, ("red",)),
        Condition(Source.HEADER, "beta", How.PRESENT),
    )
    matcher = Matcher(Rule("canary", conditions))
    assert matcher.matches({"beta": "1"}, {}, "red", 0)
    assert not matcher.matches({}, {}, "red", 0)
    assert not matcher.matches({"beta": "1"}, {}, "blue", 0)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (3, "3"), (0.5, "0.5"), ("a", "a")]
)
def test_parameters_are_compared_as_json_writes_them(value: ParameterValue, text: str) -> None:
    assert text_of(value) == text
