# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the number and the memory of resident models in bounds, by what their instances say.

Nothing is asked per request. Instances say how often they have executed, and what waits, when they
are asked: after each wake, and every few seconds. A version that was judged idle and gets a request
at that moment loses nothing: its instances finish what they have, and the next request wakes it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from backends.api.model_config import ModelConfig
from cluster.models.dormancy import Dormancy
from cluster.models.states import ModelRecord, VersionRecord
from cluster.residency.device_room import DeviceRoom
from cluster.residency.policy import (
    PINNED,
    Key,
    ResidencyLimits,
    Resident,
    may_go,
    room_left,
    to_rest,
)
from deployments.instance.progress import Progress

# Asks instances, by incarnation; those that do not answer in time are left out.
AskProgress = Callable[[Iterable[str]], Awaitable[Mapping[str, Progress]]]

# While there are too many, some of which may be idle a moment later. Each look costs all resident
# instances an answer.
_CROWDED_PERIOD_S: Final = 0.5
_US_PER_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class Use:
    """How often a version's instances had executed, and when that last grew."""

    execution_count: int
    used_s: float


@dataclass(slots=True, eq=False)
class ResidencyKeeper:
    """Puts versions to rest that are too many.

    Attributes:
        dormancy: Puts them to rest.
        ask: Asks instances.
        devices: Finds who rests so that what is being woken finds a place; None where nobody does.
    """

    records: Mapping[str, ModelRecord]
    dormancy: Dormancy
    ask: AskProgress
    limits: ResidencyLimits
    devices: DeviceRoom | None = None
    _uses: dict[Key, Use] = field(default_factory=dict)

    async def look(self) -> float | None:
        """Put to rest what is too much; return when to look again if there is still too much."""
        versions = dict(self._awake())
        incarnations = [each.incarnation for at in versions.values() for each in at.instances]
        answers = await self.ask(incarnations) if incarnations else {}
        now_s = asyncio.get_running_loop().time()
        nodes_bytes: dict[str, int] = {}
        residents = []
        for key, version in versions.items():
            residents.append(self._resident(key, version, answers, now_s))
            for endpoint in version.instances:
                if endpoint.incarnation in answers:
                    nodes_bytes[endpoint.node_id] = answers[endpoint.incarnation].load.usable_bytes
        self._uses = {key: use for key, use in self._uses.items() if key in versions}
        arriving = self.dormancy.waking_count
        chosen = set(to_rest(residents, nodes_bytes, self.limits, now_s, arriving=arriving))
        idle = [r for r in residents if r.key not in chosen and may_go(r, self.limits, now_s)]
        is_short = False
        if self.devices is not None:
            leaving, is_short = await self.devices.to_rest(idle, self.dormancy.waking_names)
            chosen.update(leaving)
        rested = sum(self.dormancy.rest(*key) for key in sorted(chosen))
        room = self.dormancy.room
        left, holders = room_left(residents, self.limits, now_s)
        room.looked(None if left is None else left - room.begun_count, holders)
        most = self.limits.max_models
        is_crowded = is_short or (bool(most) and len(residents) + arriving - rested > most)
        return _CROWDED_PERIOD_S if is_crowded else None

    def _awake(self) -> Iterator[tuple[Key, VersionRecord]]:
        for name, record in self.records.items():
            for number, version in record.versions.items():
                if version.is_ready and version.instances:
                    yield (name, number), version

    def _resident(
        self, key: Key, version: VersionRecord, answers: Mapping[str, Progress], now_s: float
    ) -> Resident:
        found = [
            (endpoint.node_id, answers[endpoint.incarnation])
            for endpoint in version.instances
            if endpoint.incarnation in answers
        ]
        # Who does not answer may be busy; what it has executed is not known.
        is_silent = len(found) < len(version.instances)
        count = sum(progress.load.execution_count for _, progress in found)
        use = self._uses.get(key)
        if use is None or (use.execution_count != count and not is_silent):
            use = self._uses[key] = Use(count, now_s)
        sizes_bytes: dict[str, int] = {}
        for node, progress in found:
            sizes_bytes[node] = sizes_bytes.get(node, 0) + progress.load.private_bytes
        return Resident(
            key,
            use.used_s,
            is_in_use=is_silent or any(progress.is_busy for _, progress in found),
            is_pinned=version.config is not None and is_pinned(version.config),
            least_idle_s=sequence_idle_s(version.config),
            sizes_bytes=sizes_bytes,
        )


def is_pinned(config: ModelConfig) -> bool:
    """Whether a model's parameter ``ondemand.pinned`` is true."""
    return config.parameters.get(PINNED, "").lower() in {"true", "1", "on"}


def sequence_idle_s(config: ModelConfig | None) -> float:
    """Return for how long sequences of a model may be idle and go on; 0.0 without sequences."""
    sequences = config.sequence_batching if config is not None else None
    return 0.0 if sequences is None else sequences.max_sequence_idle_us / _US_PER_S
