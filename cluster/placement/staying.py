# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which instances of a version rather stay when there are to be fewer. Pure.

Those without a process go first: nothing is lost with them. Then those on nodes with the fewest
instances, whatever they are instances of, so that nodes empty and can be removed. Of one node the
youngest go first: the oldest has its caches warm for the longest.

Ray: python/ray/serve/_private/deployment_scheduler.py get_replicas_to_stop
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceSpec


def staying_first(
    specs: Iterable[InstanceSpec],
    endpoints: Iterable[InstanceEndpoint],
    instances_by_node: Mapping[str, int],
) -> list[InstanceSpec]:
    """Return a version's instances, those first that rather stay.

    Args:
        specs: What its instances were made from.
        endpoints: Where those listen that are live.
        instances_by_node: How many live instances each node has, of all models.
    """
    nodes = {endpoint.name: endpoint.node_id for endpoint in endpoints}

    def order(spec: InstanceSpec) -> tuple[bool, int, str, int]:
        # An endpoint goes by the instance's name without its generation.
        node_id = nodes.get(spec.name.rpartition("@")[0]) or nodes.get(spec.name) or ""
        return not node_id, -instances_by_node.get(node_id, 0), node_id, spec.index

    return sorted(specs, key=order)


def instances_by_node(endpoints: Iterable[InstanceEndpoint]) -> Mapping[str, int]:
    """Count instances by node."""
    return Counter(endpoint.node_id for endpoint in endpoints)
