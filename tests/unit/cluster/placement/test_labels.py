# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from ray._private.label_utils import validate_label_selector

from cluster.placement.affinity import unmet

ZONE_A = {"zone": "a", "spot": "true"}


@pytest.mark.parametrize(
    ("condition", "value", "is_met"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", None, False),
        ("!a", "a", False),
        ("!a", "b", True),
        ("!a", None, True),
        ("in(a, b)", "b", True),
        ("in(a,b)", "c", False),
        ("in(a,b)", None, False),
        ("!in(a,b)", "b", False),
        ("!in(a,b)", "c", True),
        ("!in(a,b)", None, True),
        ("inside", "inside", True),
    ],
)
def test_conditions_are_met_as_in_ray(condition: str, value: str | None, is_met: bool) -> None:
    assert validate_label_selector({"zone": condition}) is None
    labels = {} if value is None else {"zone": value}
    assert (not unmet({"zone": condition}, labels)) is is_met


def test_each_condition_that_is_not_met_is_named() -> None:
    selector = {"zone": "in(b,c)", "spot": "true", "rack": "7"}
    assert unmet(selector, ZONE_A) == ("zone=in(b,c)", "rack=7")
