# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who has which device, found by instance, by device and by model. Pure.

A cluster has tens of thousands of instances. What an assignment asks of their leases costs what it
finds: who has what on this node, and on which nodes this model is.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from deployments.instance.spec import DeviceAssignment

_NOTHING: Mapping[str, Mapping[str, "Lease"]] = {}
_NOWHERE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Lease:
    """A device that an instance has.

    Attributes:
        expected_bytes: What it takes of the device's memory at most, as far as is known; else 0.
        measured_bytes: What it takes now, as far as is known; else 0.
    """

    device: DeviceAssignment
    model_key: str
    expected_bytes: int = 0
    measured_bytes: int = 0


class Leases(MutableMapping[str, Lease]):
    """Leases by the instance's name, in no order."""

    def __init__(self, leases: Mapping[str, Lease] | None = None) -> None:
        self._leases: dict[str, Lease] = {}
        self._on_node: dict[str, dict[str, dict[str, Lease]]] = {}
        self._nodes: dict[str, dict[str, int]] = {}
        self.update(leases or {})

    def __getitem__(self, name: str) -> Lease:
        return self._leases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __setitem__(self, name: str, lease: Lease) -> None:
        self.pop(name, None)
        self._leases[name] = lease
        device = lease.device
        self._on_node.setdefault(device.node_id, {}).setdefault(device.uuid, {})[name] = lease
        nodes = self._nodes.setdefault(lease.model_key, {})
        nodes[device.node_id] = nodes.get(device.node_id, 0) + 1

    def __delitem__(self, name: str) -> None:
        lease = self._leases.pop(name)
        node_id, uuid = lease.device.node_id, lease.device.uuid
        devices, nodes = self._on_node[node_id], self._nodes[lease.model_key]
        del devices[uuid][name]
        if not devices[uuid]:
            del devices[uuid]
        if not devices:
            del self._on_node[node_id]
        nodes[node_id] -= 1
        if not nodes[node_id]:
            del nodes[node_id]
        if not nodes:
            del self._nodes[lease.model_key]

    def on_node(self, node_id: str) -> Mapping[str, Mapping[str, Lease]]:
        """Return who has what on a node: leases by the instance's name, by UUID of a device."""
        return self._on_node.get(node_id, _NOTHING)

    def instances_by_node(self, model_key: str) -> Mapping[str, int]:
        """Return how many leases a model's instances have on each node where they have any."""
        return self._nodes.get(model_key, _NOWHERE)
