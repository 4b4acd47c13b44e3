# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who has which device, found by instance, by device and by model. Pure.

A cluster has tens of thousands of instances. What an assignment asks of their leases costs what it
finds: who has this device, and on which nodes this model is.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from deployments.instance.spec import DeviceAssignment

_NOBODY: Mapping[str, "Lease"] = {}
_NOWHERE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Lease:
    """A device that an instance has.

    Attributes:
        device: Which.
        model_key: The instance's model.
        expected_bytes: What it takes of the device's memory at most, as far as is known; else 0.
        measured_bytes: What it takes now, as far as is known; else 0.
    """

    device: DeviceAssignment
    model_key: str
    expected_bytes: int = 0
    measured_bytes: int = 0


class Leases(MutableMapping[str, Lease]):
    """Leases by the instance's name, in no order.

    Args:
        leases: Those there are already.
    """

    def __init__(self, leases: Mapping[str, Lease] | None = None) -> None:
        self._leases: dict[str, Lease] = {}
        self._holders: dict[tuple[str, str], dict[str, Lease]] = {}
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
        self._holders.setdefault((device.node_id, device.uuid), {})[name] = lease
        nodes = self._nodes.setdefault(lease.model_key, {})
        nodes[device.node_id] = nodes.get(device.node_id, 0) + 1

    def __delitem__(self, name: str) -> None:
        lease = self._leases.pop(name)
        node_id, key = lease.device.node_id, (lease.device.node_id, lease.device.uuid)
        holders, nodes = self._holders[key], self._nodes[lease.model_key]
        del holders[name]
        if not holders:
            del self._holders[key]
        nodes[node_id] -= 1
        if not nodes[node_id]:
            del nodes[node_id]
        if not nodes:
            del self._nodes[lease.model_key]

    def holders(self, node_id: str, uuid: str) -> Mapping[str, Lease]:
        """Return who has a device, by the instance's name."""
        return self._holders.get((node_id, uuid), _NOBODY)

    def instances_by_node(self, model_key: str) -> Mapping[str, int]:
        """Return how many leases a model's instances have on each node where they have any."""
        return self._nodes.get(model_key, _NOWHERE)
