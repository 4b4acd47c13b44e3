# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from cluster.models.dependencies import dependents_of, find_cycle


def parts(**composing: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(text.split()) for name, text in composing.items()}


def test_dependents_are_the_ensembles_that_contain_the_model() -> None:
    composing = parts(b="x y", a="x", c="z")
    assert dependents_of("x", composing) == ("a", "b")
    assert dependents_of("nothing", composing) == ()


def test_a_model_in_two_branches_is_no_cycle() -> None:
    assert find_cycle("a", parts(a="b c", b="d", c="d")) == ()


def test_a_cycle_is_shown_as_a_path() -> None:
    assert find_cycle("a", parts(a="b", b="c", c="a")) == ("a", "b", "c", "a")
    assert find_cycle("a", parts(a="a")) == ("a", "a")


def test_a_cycle_among_others_ends_the_search() -> None:
    assert find_cycle("a", parts(a="b", b="c", c="b")) == ()
