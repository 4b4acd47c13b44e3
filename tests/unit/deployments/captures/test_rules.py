# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from deployments.captures.rules import Outcomes, Part, read_rules
from deployments.captures.sampling import EvenSampler

RULE: dict[str, Any] = {"models": ["digits*"]}


def _document(**changes: Any) -> dict[str, Any]:
    return {"store": "/captures", "captures": [RULE], **changes}


def test_defaults_keep_all_of_what_a_rule_names() -> None:
    rules = read_rules(_document())
    rule = rules.rule_of("digits_png")
    assert rule is not None
    assert (rule.fraction, rule.parts, rule.outcomes) == (1.0, frozenset(Part), Outcomes.ALL)
    assert rules.rule_of("simple") is None


def test_the_first_rule_that_has_a_model_decides() -> None:
    rows = [{"models": "a*", "fraction": 0.5}, {"models": ["*"]}]
    rules = read_rules(_document(captures=rows))
    assert [rules.rule_of(name).fraction for name in ("ab", "b")] == [0.5, 1.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ([], "the document: got a list, expected a mapping"),
        (_document(stor="x"), "stor: unknown key 'stor', expected one of store, "),
        (_document(store=""), "store: got ''"),
        (_document(captures=[]), "captures: got 0 entries"),
        (_document(captures=[{}]), "captures[0]: 'models' is missing"),
        (_document(captures=[RULE | {"fraction": 0}]), "captures[0].fraction: got 0"),
        (_document(captures=[RULE | {"fraction": 2}]), "captures[0].fraction: got 2"),
        (
            _document(captures=[RULE | {"parts": ["head"]}]),
            "parts[0]: unknown part 'head', exp",
        ),
        (
            _document(captures=[RULE | {"outcomes": "bad"}]),
            "outcomes: unknown outcome 'bad'",
        ),
        (
            _document(captures=[RULE | {"redact": {"x": 1}}]),
            "redact.x: unknown key 'x'",
        ),
        (_document(captures=[RULE | {"redact": {"ids": 1}}]), "captures[0].redact.ids: got 1"),
        (
            _document(limits={"tensor_bytes": True}),
            "limits.tensor_bytes: got true, expected",
        ),
        (_document(rotate={"seconds": -1}), "rotate.seconds: got -1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(document: Any, where: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_rules(document)
    assert where in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "store",
                    "captures",
                    "limits",
                    "rotate",
                    "models",
                    "redact",
                    "parts",
                    "outcomes",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


_READ = _document(limits={"tensor_bytes": 9})


@given(JSON)
@example(_READ)
def test_any_document_is_read_or_refused(document: Any) -> None:
    try:
        read_rules(document)
    except InvalidArgumentError:
        assert document is not _READ


@given(st.floats(0.001, 1), st.floats(0, 0.999))
def test_a_fraction_of_requests_is_taken_evenly(fraction: float, phase: float) -> None:
    sampler = EvenSampler(phase)
    taken = 0
    for count in range(1, 200):
        taken += sampler.takes("m", fraction)
        assert abs(taken - count * fraction) <= 1 + 1e-6


def test_each_model_is_sampled_for_itself() -> None:
    sampler = EvenSampler()
    for _ in range(3):
        assert [sampler.takes(name, 0.5) for name in ("a", "b", "a", "b")] == [
            False,
            False,
            True,
            True,
        ]
