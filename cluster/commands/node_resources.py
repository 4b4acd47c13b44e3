# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta node-resources``: what ``ray start`` has to be told of this machine's GPUs.

Manta needs none of it to place its own instances, which it does by what its nodes report. It is for
clusters where other programs reserve GPUs too, or whose autoscaler has to know of MIG profiles.
"""

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from cluster.devices.inventory import NVIDIA, Inventory
from cluster.devices.local import read_local

_DESCRIPTION: Final = """Print the command that starts Ray on this machine with a resource for each
GPU ('gpu_0') and each MIG profile ('mig_1g.10gb'), so that Ray counts them one by one."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    """How to start Ray on a node.

    Attributes:
        num_gpus: Devices that compute: GPUs, and parts of those that are divided.
        resources: Ray's resources: one for each whole GPU, and the number of parts by profile.
        visible_devices: ``CUDA_VISIBLE_DEVICES``; empty where Ray finds the devices by itself.
    """

    num_gpus: int
    resources: dict[str, int]
    visible_devices: str = ""

    @property
    def command(self) -> str:
        """The same as a line for a shell; further arguments can follow."""
        words = ["ray", "start", f"--num-gpus={self.num_gpus}"]
        if self.resources:
            words.append(f"--resources={json.dumps(self.resources)}")
        line = " ".join(map(shlex.quote, words))
        return (
            f"CUDA_VISIBLE_DEVICES={self.visible_devices} {line}" if self.visible_devices else line
        )


def node_start(inventory: Inventory) -> NodeStart:
    """Return how to start Ray on a node with these GPUs."""
    gpus = inventory.gpus
    devices = [device for gpu in gpus for device in gpu.devices]
    whole = {f"gpu_{gpu.index}": 1 for gpu in gpus if not gpu.is_mig and gpu.vendor == NVIDIA}
    parts = Counter(f"mig_{mig.profile}" for gpu in gpus if gpu.is_mig for mig in gpu.mig_devices)
    # Ray counts a divided GPU once, and shows a process all of it.
    visible = ",".join(device.uuid for device in devices) if parts else ""
    return NodeStart(len(devices), {**whole, **dict(sorted(parts.items()))}, visible)


def main(arguments: Sequence[str], nvml: Any = None) -> int:
    """Run ``manta node-resources`` and return its exit code: 0, also without a GPU."""
    parser = argparse.ArgumentParser(
        prog="manta node-resources", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print the GPUs too, as JSON")
    given = parser.parse_args(arguments)
    inventory = read_local(nvml)
    start = node_start(inventory)
    if given.json:
        print(
            json.dumps({**asdict(start), "command": start.command, **asdict(inventory)}, indent=2)
        )
        return 0
    for problem in inventory.problems:
        print(f"# {problem}")
    for gpu in inventory.gpus:
        parts = ", ".join(mig.profile for mig in gpu.mig_devices)
        shown = f"MIG: {parts or 'no devices'}" if gpu.is_mig else f"{gpu.memory_bytes >> 20} MiB"
        print(f"# GPU {gpu.index}: {gpu.name} ({gpu.uuid}), {shown}")
    print(start.command)
    return 0
