# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What GPUs a node has, as data. Pure.

A GPU has two numbers. Its *physical* index is the driver's, in the order of the PCI bus, as
``nvidia-smi`` shows it. Its *index* is the one that ``instance_group.gpus`` means: its place among
the GPUs that the node's Ray processes see, so the same unless ``CUDA_VISIBLE_DEVICES`` was set when
Ray was started there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

NVIDIA: Final = "nvidia"
AMD: Final = "amd"
_MIG_RESOURCE: Final = re.compile(r"mig[-_](?P<profile>\d+c?\.?\d*g\.\d+gb\S*)")


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A part of a GPU that CUDA sees as a device of its own.

    Attributes:
        uuid: What ``CUDA_VISIBLE_DEVICES`` takes, for instance ``MIG-4f0a...``.
        profile: Its size, for instance ``1g.10gb``.
        memory_bytes: Size of its memory; 0 when the driver does not tell.
        used_bytes: How much of that is used; None when the driver does not tell.
        processes: Bytes that each process has there, by process id as this node sees it.
    """

    uuid: str
    profile: str
    memory_bytes: int = 0
    used_bytes: int | None = None
    processes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: Number that ``instance_group.gpus`` means.
        physical_index: The driver's number.
        uuid: What ``CUDA_VISIBLE_DEVICES`` takes.
        memory_bytes: Size of its memory; 0 when the driver does not tell.
        used_bytes: How much of that is used; None when the driver does not tell.
        compute_capability: CUDA's, major and minor; (0, 0) when the driver does not tell.
        numa_node: Of the machine, to which it is attached; None when that is not known.
        is_mig: Whether MIG mode is on: then only its MIG devices compute.
        processes: Bytes that each process has there, by process id as this node sees it.
        vendor: `NVIDIA` or `AMD`.
    """

    index: int
    physical_index: int
    uuid: str
    name: str = ""
    memory_bytes: int = 0
    used_bytes: int | None = None
    compute_capability: tuple[int, int] = (0, 0)
    numa_node: int | None = None
    is_mig: bool = False
    mig_devices: tuple[MigDevice, ...] = ()
    processes: Mapping[int, int] = field(default_factory=dict)
    vendor: str = NVIDIA

    @property
    def devices(self) -> "tuple[Gpu | MigDevice, ...]":
        """What computes: its MIG devices, or itself."""
        return self.mig_devices if self.is_mig else (self,)


@dataclass(frozen=True)
class Inventory:
    """The GPUs of one node.

    What a choice among many nodes asks of each is looked up once for each report.

    Attributes:
        gpus: By index.
        problems: What could not be read, one line each.
    """

    gpus: tuple[Gpu, ...] = ()
    problems: tuple[str, ...] = ()

    def mig_devices(self, profile: str, sign: int = 1) -> "tuple[tuple[Gpu, MigDevice], ...]":
        """Return NVIDIA's MIG devices of a profile, each with the GPU that it is on.

        Args:
            profile: The profile.
            sign: 1 for those with the most free memory first, -1 for those with the least.
        """
        return self._mig_devices.get((profile, sign), ())

    @cached_property
    def _mig_devices(self) -> "Mapping[tuple[str, int], tuple[tuple[Gpu, MigDevice], ...]]":
        found: dict[str, list[tuple[Gpu, MigDevice]]] = {}
        for gpu in self.gpus:
            for device in gpu.mig_devices if gpu.vendor == NVIDIA and gpu.is_mig else ():
                found.setdefault(device.profile, []).append((gpu, device))
        return {
            (profile, sign): tuple(
                sorted(each, key=lambda part: _mig_order(part[0], part[1], sign))
            )
            for profile, each in found.items()
            for sign in (1, -1)
        }

    def visible(self, text: str | None) -> "Inventory":
        """Return what a process sees whose ``CUDA_VISIBLE_DEVICES`` is a text; None: unset.

        As for CUDA the list ends before the first entry that names nothing, and an entry may be an
        index, a UUID or the beginning of one. GPUs get their indices by their places in it.
        """
        if text is None:
            return self
        chosen: dict[str, Gpu] = {}
        for entry in text.split(","):
            gpu = self._named(entry.strip())
            if gpu is None:
                break
            known = chosen.get(gpu.uuid)
            if known is not None:
                parts = {mig.uuid: mig for mig in (*known.mig_devices, *gpu.mig_devices)}
                chosen[gpu.uuid] = replace(known, mig_devices=tuple(parts.values()))
            else:
                chosen[gpu.uuid] = replace(gpu, index=len(chosen))
        return replace(self, gpus=tuple(chosen.values()))

    def _named(self, entry: str) -> Gpu | None:
        if entry.isdecimal():
            return next((gpu for gpu in self.gpus if gpu.physical_index == int(entry)), None)
        if not entry.startswith(("GPU-", "MIG-")):
            return None
        for gpu in self.gpus:
            parts = [mig for mig in gpu.mig_devices if mig.uuid.startswith(entry)]
            if parts:
                return replace(gpu, mig_devices=(parts[0],))
            if gpu.uuid.startswith(entry):
                return gpu
        return None

    def usable(self, count: int, min_compute_capability: float = 0.0) -> "Inventory":
        """Return the part that Manta may use; indices stay as they are.

        Args:
            count: GPUs that the node's Ray was told of; those of higher indices are not touched.
            min_compute_capability: GPUs of NVIDIA below that are not used; what tells none is.

        Triton: core/src/cuda_utils.cc CheckGPUCompatibility
        """
        if count >= len(self.gpus) and min_compute_capability <= 0:
            return self
        is_cut = count < len(self.gpus) and not any(gpu.is_mig for gpu in self.gpus)
        gpus = tuple(
            gpu
            for gpu in self.gpus
            if (gpu.index < count or not is_cut) and _is_capable(gpu, min_compute_capability)
        )
        # Asked again and again of nodes where it is all of them.
        return self if len(gpus) == len(self.gpus) else replace(self, gpus=gpus)


def _mig_order(gpu: Gpu, device: MigDevice, sign: int) -> tuple[int, int, str]:
    is_told = device.used_bytes is not None and device.memory_bytes
    free_bytes = device.memory_bytes - (device.used_bytes or 0) if is_told else 0
    return -sign * free_bytes, gpu.index, device.uuid


def _is_capable(gpu: Gpu, minimum: float) -> bool:
    if gpu.vendor != NVIDIA or gpu.compute_capability == (0, 0):
        return True
    return _decimal(gpu.compute_capability) >= minimum


@cache
def _decimal(capability: tuple[int, int]) -> float:
    """Return what Triton makes of a compute capability to compare it."""
    major, minor = capability
    return float(f"{major}.{minor}")


def mig_profile_of(resource: str) -> str:
    """Return the MIG profile that a Ray resource such as ``mig_1g.10gb`` names; empty for none."""
    match = _MIG_RESOURCE.fullmatch(resource)
    return "" if match is None else match["profile"]
