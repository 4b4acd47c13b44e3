# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The policies of the controller, in their order of precedence."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from cluster.actors.serve_controller import restart_serve_controller
from cluster.autoscaling.autoscaler import Autoscaler
from cluster.controller.boot import Boot
from cluster.controller.node_policies import Consolidation, DrainingNodes, NodeDemand
from cluster.controller.poll import UnreadModels, know_names, next_poll_s, poll_once
from cluster.controller.preemption import Preemption
from cluster.controller.prefetching import Prefetching
from cluster.controller.prestarting import Prestarting
from cluster.controller.reconciler import Look, Policy, Reconciler
from cluster.controller.repository_source import RepositorySource
from cluster.controller.wall_clock import WallClockWatch
from cluster.instances.node_files import NodeFilesSettings
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.settings_at_start import ingress_label_selector
from cluster.residency.device_room import DeviceRoom
from cluster.residency.keeper import ResidencyKeeper
from cluster.residency.policy import ResidencyLimits
from cluster.rollout.driver import Rollouts
from cluster.threads import GCS

RESIDENCY: Final = "residency"
REPOSITORIES: Final = "repositories"
UNREAD: Final = "unread models"

# What must be done soonest, and what others have to find done, comes first: what serves is saved
# before anything makes room; room is made by those with the better claim; only what still waits
# then asks for nodes; and a node is emptied, or a process or a file is got ready, for what is left.
POLICIES: Final = (
    # A node that drains may have half a minute.
    Policy("evacuation", 2.0, "moves instances off nodes that drain", longest_s=2.0),
    Policy("wall clock", 1.0, "restarts Serve's controller when it was set back", longest_s=1.0),
    Policy("preemption", 2.0, "gives who waits the room of idle instances of a lower priority"),
    Policy(RESIDENCY, 5.0, "has idle models on demand rest where they are too many or hold room"),
    Policy("rollouts", 1.0, "changes the weights of versions by what their answers tell"),
    Policy("autoscaling", 1.0, "sets how many instances versions have by their load"),
    Policy("node demand", 2.0, "asks Ray's autoscaler for nodes while instances wait"),
    Policy("consolidation", 10.0, "has an under-used node emptied"),
    Policy("unused actors", 2.0, "ends what instances have left on nodes without any"),
    Policy(REPOSITORIES, 15.0, "loads what is new or changed, unloads what is gone"),
    Policy(UNREAD, 5.0, "loads what could not be read at the start"),
    Policy("prestarting", 2.0, "has nodes keep idle workers while versions are dormant"),
    Policy("prefetching", 2.0, "has nodes fetch the files of dormant models"),
)


def make_reconciler(
    boot: Boot,
    autoscaler: Autoscaler,
    rollouts: Rollouts,
    caches: NodeFilesSettings,
    *,
    is_joined: bool,
) -> Reconciler:
    """Make the policies that this server has.

    Args:
        boot: The start, and what it works with.
        autoscaler: Hears of loads from routers.
        rollouts: Are asked for by clients.
        caches: The nodes' caches.
        is_joined: Whether the cluster may have an autoscaler; a Ray of the server's own has none.
    """
    options, host, lifecycle = boot.options, boot.host, boot.lifecycle
    nodes, placer = host.nodes, host.actors.placer
    draining = DrainingNodes(nodes, placer, lifecycle)
    looks: dict[str, Look] = {
        "evacuation": draining.look,
        "wall clock": WallClockWatch(GCS.wrapped(restart_serve_controller)).look,
        "preemption": Preemption(nodes, host.actors, lifecycle).look,
        "rollouts": rollouts.look,
        "autoscaling": autoscaler.look_at_all,
        "unused actors": draining.end_unused,
        "prestarting": Prestarting(nodes, placer, lifecycle, options.prestart_workers).look,
    }
    if is_joined:
        looks["node demand"] = NodeDemand(nodes, placer).look
    if options.consolidate_nodes:
        labels, after_s = ingress_label_selector(options), options.consolidate_after_secs
        looks["consolidation"] = Consolidation(nodes, placer, lifecycle, labels, after_s).look
    if options.prefetch_cache_fraction:
        prefetched = boot.source, caches, options.prefetch_cache_fraction
        looks["prefetching"] = Prefetching(nodes, host.files, placer, lifecycle, *prefetched).look
    if boot.is_on_demand:
        looks[RESIDENCY] = ResidencyKeeper(
            lifecycle.records,
            lifecycle.dormancy,
            host.actors.ask_progress,
            ResidencyLimits(options.ondemand_max_models, options.ondemand_memory_fraction),
            DeviceRoom(placer, nodes.read_cluster, lifecycle.pool_of),
        ).look
        lifecycle.dormancy.room.wait_s = options.wake_timeout_secs
        looks[REPOSITORIES] = _polls(boot, know_names)
    elif options.model_control_mode == "poll":
        looks[REPOSITORIES] = _polls(boot, poll_once)
    else:
        looks[UNREAD] = UnreadModels(boot).look
    poll_s = float(options.repository_poll_secs)
    rows = (
        replace(row, period_s=poll_s, longest_s=poll_s) if row.name == REPOSITORIES else row
        for row in POLICIES
    )
    reconciler = Reconciler(rows, looks)
    placer.on_waits = lambda: reconciler.look_soon(RESIDENCY)
    # Until it has looked any number of versions may wake.
    reconciler.look_soon(RESIDENCY)
    # What is to be tried again is known when the start is over.
    reconciler.look_soon(UNREAD)
    return reconciler


def _polls(boot: Boot, look: Callable[[RepositorySource, ModelLifecycle], Awaitable[None]]) -> Look:
    async def poll() -> float:
        if boot.recovered.is_set():
            await look(boot.source, boot.lifecycle)
        period_s = float(boot.options.repository_poll_secs)
        return next_poll_s(period_s, random.SystemRandom().random())

    return poll
