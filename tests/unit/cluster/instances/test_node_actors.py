# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which actors serve all instances of a node, and since when nobody has used them."""

from cluster.instances.node_actors import node_of
from cluster.instances.node_files import _Uses


def test_actors_of_a_node_are_told_by_their_names() -> None:
    names = {
        "model-files@aa11": "aa11",
        "resource-arbiter@aa11/0f0f0f0f": "aa11",
        "model-files/1#0@3": None,
        "model-controller": None,
    }
    assert {name: node_of(name) for name in names} == names


def test_what_is_in_use_is_not_unused_whoever_else_has_ended() -> None:
    uses = _Uses()
    with uses:
        with uses:
            assert uses.over_s == 0.0
        assert uses.over_s == 0.0
    assert uses.over_s > 0.0
