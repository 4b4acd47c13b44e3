# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Each node without an ingress has one ingress that tells its metrics."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from deployments.metrics.node_roles import NodeRoles

NAMES = st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=8)


@given(NAMES, NAMES)
def test_each_node_without_an_ingress_is_told_by_one_that_has_one(
    tellers: set[str], others: set[str]
) -> None:
    roles = NodeRoles(tellers, others)
    told = Counter(node for teller in tellers for node in roles.told_by(teller))
    assert told == Counter(others)


@given(NAMES, NAMES, st.text("xyz", min_size=1, max_size=3))
def test_a_new_ingress_takes_nodes_over_and_moves_none_between_others(
    tellers: set[str], others: set[str], new: str
) -> None:
    before, after = NodeRoles(tellers, others), NodeRoles(tellers | {new}, others)
    for teller in tellers:
        assert set(after.told_by(teller)) <= set(before.told_by(teller))


def test_a_node_that_is_not_known_to_have_an_ingress_tells_of_no_other() -> None:
    assert NodeRoles((), ("n",)).told_by("m") == ()
    assert NodeRoles(("m",), ("n",)).told_by("n") == ()
