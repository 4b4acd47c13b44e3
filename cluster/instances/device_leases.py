# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who has which GPU or MIG device: gives devices to instances, and measures what they take.

The leases are this process's memory. A controller that starts anew learns them from the instances
it adopts, whose recipes say what they have.

What an instance takes of a GPU is read on its node every ten seconds, by process, as long as there
are such instances. That is how it becomes known whether a model fits beside others.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Final

from backends.api.errors import UnavailableError
from cluster.devices.inventory import Inventory
from cluster.placement.demand import ClusterResources, Waits
from cluster.placement.devices import (
    Admission,
    assign_device,
    may_have_device,
    mig_profile,
)
from cluster.placement.leases import Lease, Leases
from cluster.placement.node_devices import MAX_AGE_S, NodeDevices
from deployments.instance.spec import InstanceDescription, InstanceSpec
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# How old a report may be by which a device is given away.
_FRESH_S: Final = 2.0
# Nobody tells that a foreign process has left a GPU.
_RETRY_S: Final = 5.0
MEASURE_S: Final = 10.0
# Instances that load at the same time are measured together.
_GATHER_S: Final = 1.0
# A hundred bytes each.
MOST_MODELS: Final = 2000
# Allocators grow by less than this between readings without it meaning anything.
_SAME_BYTES: Final = 1 << 20


class GpuMemory:
    """By digest of a model's files and options: bytes an instance had after its load, and at most.

    What was measured of a model is forgotten with it: another of its name is another model.

    Args:
        rows: The same, two numbers each; kept by the caller.
        changed: Called after each change of ``rows``.
    """

    def __init__(
        self, rows: MutableMapping[str, list[int]], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._rows = rows
        self._changed = changed

    def peak_bytes(self, digest: str) -> int:
        """Return the most that an instance had; 0 when none was measured."""
        return max(self._rows.get(digest, [0]))

    def measured(self, digest: str, bytes_now: int) -> None:
        """Note what an instance has now; its first measurement is that after the load."""
        known = self._rows.get(digest)
        if known is not None and bytes_now <= known[1] + _SAME_BYTES:
            return
        self._rows[digest] = [bytes_now if known is None else known[0], bytes_now]
        while len(self._rows) > MOST_MODELS:
            del self._rows[next(iter(self._rows))]
        self._changed()


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """By what rules instances get devices.

    Attributes:
        min_compute_capability: GPUs below are not used.
        load_limits: By GPU index: the fraction of memory above which nothing more is loaded.
        memory: What models took when they were measured.
        waits_above_limit: Whether instances wait for GPUs above their load limit to be used less.
    """

    min_compute_capability: float = 0.0
    load_limits: Mapping[int, float] = field(default_factory=dict)
    memory: GpuMemory = field(default_factory=lambda: GpuMemory({}))
    waits_above_limit: bool = False


@dataclass(frozen=True, slots=True)
class _Measured:
    node_id: str
    pid: int
    digest: str


class DeviceLeases:
    """The devices of all instances of one controller.

    Attributes:
        rules: By what rules instances get devices.
    """

    def __init__(
        self, look: Callable[[], Awaitable[ClusterResources]], reports: NodeDevices
    ) -> None:
        self.rules = DeviceRules()
        self._look = look
        self._reports = reports
        self._leases = Leases()
        self._measured: dict[str, _Measured] = {}
        self._released = asyncio.Event()
        self._freed_s: dict[str, float] = {}
        self._loaded = asyncio.Event()
        self._supervisor = Supervisor("devices")
        self._measuring: asyncio.Task[None] | None = None

    @property
    def leases(self) -> Mapping[str, Lease]:
        """Who has what, by the instance's name."""
        return self._leases

    async def wait_assigned(
        self, spec: InstanceSpec, on_blocked: Callable[[Waits], None]
    ) -> InstanceSpec:
        """Wait until there is a device for an instance and give it to it, until `release`.

        Until it has another, an instance that is created anew keeps what it had. ``on_blocked`` is
        called each time it is looked for in vain.

        Returns:
            The recipe with the device; as it was when it needs none, or Ray chooses.

        Raises:
            InvalidArgumentError: It asks for several MIG devices.
            UnavailableError: Every GPU that it could have is above its load limit, for which it
                shall not wait.
        """
        if not may_have_device(spec):
            return replace(spec, device=None)
        while True:
            await self._refresh_freed()
            cluster = (await self._look()).supported(self.rules.min_compute_capability)
            try:
                outcome = self._assign(spec, cluster)
            except UnavailableError as error:
                if not self.rules.waits_above_limit:
                    raise
                outcome = Waits(error.message)
            if isinstance(outcome, Waits):
                self.release(spec.name)
                released = self._released
                on_blocked(outcome)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_S):
                        await released.wait()
                continue
            device = outcome.device
            # A report that was read just now may change the choice.
            if device is not None and await self._reports.refresh(device.node_id, _FRESH_S):
                continue
            if device is not None:
                expected = self.rules.memory.peak_bytes(spec.options_digest)
                self._leases[spec.name] = Lease(device, spec.model_key, expected)
            return outcome

    async def is_misplaced(self, description: InstanceDescription) -> bool:
        """Whether an instance that asked for a MIG device was placed by Ray, and can have one now.

        It was when no node had such a device: Ray then waits for a node that offers the resource,
        and knows nothing of the devices behind it.
        """
        spec = description.spec
        if spec.device is not None or not mig_profile(spec):
            return False
        await self._reports.refresh(description.endpoint.node_id, 0.0)
        outcome = self._assign(spec, await self._look())
        return isinstance(outcome, InstanceSpec) and outcome.device is not None

    def loaded(self, description: InstanceDescription) -> None:
        """Note an instance that is loaded, or was found alive: what it has, and its process."""
        spec = description.spec
        if spec.device is None and not spec.num_gpus:
            return
        if spec.device is not None:
            expected = self.rules.memory.peak_bytes(spec.options_digest)
            self._leases[spec.name] = Lease(spec.device, spec.model_key, expected)
        self._measured[spec.name] = _Measured(
            description.endpoint.node_id, description.pid, spec.options_digest
        )
        self._loaded.set()
        if self._measuring is None:
            self._measuring = self._supervisor.spawn("memory of GPUs", self._measure())

    def release(self, name: str) -> None:
        """Take an instance's device back; one that has none is no error."""
        self._measured.pop(name, None)
        lease = self._leases.pop(name, None)
        if lease is not None:
            self._freed_s[lease.device.node_id] = asyncio.get_running_loop().time()
            self._released.set()
            self._released = asyncio.Event()

    def admission(self, spec: InstanceSpec) -> Admission:
        """Return what bounds an instance's use of a device."""
        needed = self.rules.memory.peak_bytes(spec.options_digest)
        return Admission(needed, self.rules.load_limits)

    def _assign(self, spec: InstanceSpec, cluster: ClusterResources) -> InstanceSpec | Waits:
        own = self._leases.pop(spec.name, None)
        try:
            return assign_device(spec, cluster, self._leases, self.admission(spec))
        finally:
            if own is not None:
                self._leases[spec.name] = own

    async def _refresh_freed(self) -> None:
        """Look again at nodes where a process has ended, which frees its memory some time later."""
        since_s = asyncio.get_running_loop().time() - MAX_AGE_S
        self._freed_s = {node: at_s for node, at_s in self._freed_s.items() if at_s >= since_s}
        await asyncio.gather(*(self._reports.refresh(node, _FRESH_S) for node in self._freed_s))

    async def _measure(self) -> None:
        try:
            while self._measured:
                self._loaded.clear()
                await asyncio.sleep(_GATHER_S)
                nodes = {each.node_id for each in self._measured.values()}
                await asyncio.gather(*(self._reports.refresh(n, _GATHER_S / 2) for n in nodes))
                self._note_all()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(MEASURE_S):
                        await self._loaded.wait()
        finally:
            self._measuring = None

    def _note_all(self) -> None:
        for name, each in self._measured.items():
            bytes_now = _taken_by(each.pid, self._reports.report(each.node_id))
            # In a container the driver may know processes by other numbers.
            if not bytes_now:
                continue
            self.rules.memory.measured(each.digest, bytes_now)
            lease = self._leases.get(name)
            if lease is not None:
                peak = self.rules.memory.peak_bytes(each.digest)
                self._leases[name] = replace(lease, expected_bytes=peak, measured_bytes=bytes_now)


def _taken_by(pid: int, inventory: Inventory) -> int:
    return sum(device.processes.get(pid, 0) for gpu in inventory.gpus for device in gpu.devices)
