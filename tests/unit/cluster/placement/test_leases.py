# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Leases are found by instance, by device and by model, whatever was given and taken back."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cluster.placement.leases import Lease, Leases
from deployments.instance.spec import DeviceAssignment

NAMES, NODES, UUIDS, MODELS = "abcd", "xy", "12", "mn"
STEPS = st.tuples(
    st.sampled_from(NAMES),
    st.none() | st.tuples(st.sampled_from(NODES), st.sampled_from(UUIDS), st.sampled_from(MODELS)),
)


@given(st.lists(STEPS, max_size=30))
def test_what_is_looked_up_is_what_the_leases_say(
    steps: list[tuple[str, tuple[str, str, str] | None]],
) -> None:
    leases, known = Leases(), dict[str, Lease]()
    for name, what in steps:
        if what is None:
            leases.pop(name, None)
            known.pop(name, None)
        else:
            node_id, uuid, model = what
            leases[name] = known[name] = Lease(DeviceAssignment(node_id, uuid, 0), model)
    assert dict(leases) == known
    for node_id in NODES:
        for uuid in UUIDS:
            device = DeviceAssignment(node_id, uuid, 0)
            held = {name: lease for name, lease in known.items() if lease.device == device}
            assert leases.on_node(node_id).get(uuid, {}) == held
    for model in MODELS:
        nodes = [each.device.node_id for each in known.values() if each.model_key == model]
        assert leases.instances_by_node(model) == Counter(nodes)
