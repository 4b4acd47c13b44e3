# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""By what rules instances get their GPUs: the server's options, and what was measured."""

from cluster.controller.durable_state import DurableState
from cluster.instances.device_leases import DeviceRules
from cluster.instances.gpu_memory import GpuMemory
from cluster.options.parsing import ServerOptions


def device_rules(options: ServerOptions, state: DurableState) -> DeviceRules:
    """Return the rules; what is measured from now on is kept in the state."""
    return DeviceRules(
        min_compute_capability=options.min_supported_compute_capability,
        load_limits=dict(options.model_load_gpu_limit),
        memory=GpuMemory(state.saved.gpu_memory, state.schedule),
        # There, models leave to make room.
        waits_above_limit=options.model_control_mode == "ondemand",
    )
