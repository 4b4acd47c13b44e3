# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller must know again after it was killed, kept in the cluster's key-value store.

The instances themselves carry their specs; options are an argument of the controller's
constructor. What is left, and kept here: the models users asked for and unloaded, the overrides
they were loaded with, the last generation number, and the key of the lanes. The store is Ray's own
(GCS), so it is as durable as the cluster is.

The state's row has the controller's number in its key (`cluster.controller.store`): what a
controller writes that has been replaced, unknown to itself, nobody reads.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from backends.api.errors import UnavailableError
from cluster.actors.lane_secret import LANE_SECRET_KEY
from cluster.controller.started_with import StartedWith
from cluster.controller.store import FencedStore, Store, StoreWriter
from cluster.models.override import NO_OVERRIDE, Override
from cluster.models.states import ModelRecord
from cluster.options.secret_values import SECRETS_KEY
from deployments.settings.server_settings import ServerSettings

_log = logging.getLogger(__name__)

# Followed by the number of the controller that wrote it.
STATE_PREFIX = b"controller/state/"
# What a controller of another release is started with.
HANDOVER_KEY = b"controller/handover"
_OVERRIDE_PREFIX = b"controller/override/"
_SECRET_BYTES = 32
# Numbers are reserved in blocks, so that a load costs no write.
_GENERATION_BLOCK = 1000
# How long a client's call waits for the store.
_WRITE_TIMEOUT_S = 10.0
# The head keeps the store in memory: an override with larger files lasts as long as the controller.
MAX_OVERRIDE_BYTES = 64 * 1024 * 1024
# Of all models together: so does what is above that.
MAX_OVERRIDES_BYTES = 1024 * 1024 * 1024


class SavedState(msgspec.Struct):
    """The small part of the state.

    Attributes:
        generation: Highest generation number that may be in use.
        wanted: Models to be loaded in explicit mode; in mode ondemand those whose files came with
            their load.
        unloaded: Versions of unloaded models, for the index.
        is_initialised: Whether start-up loading was done once.
        settings: What clients have changed of the server; None while nothing.
        router_ids: The routers that follow the routing table.
        gpu_memory: By digest of a model: bytes an instance had of a GPU after its load, and at
            most.
        rollouts: By key of a model: its rollout, encoded; see `cluster.rollout.driver`.
        asked: Of ``wanted``: those that clients have asked for, whatever ``--load-model`` names.
        started_with: Of the options that all this was made with; None where that is not known.
        owner: Token of the server's owner; empty where that is not known.
    """

    generation: int = 0
    wanted: list[str] = []
    unloaded: dict[str, list[int]] = {}
    is_initialised: bool = False
    settings: ServerSettings | None = None
    router_ids: list[str] = []
    gpu_memory: dict[str, list[int]] = {}
    rollouts: dict[str, bytes] = {}
    asked: list[str] = []
    started_with: StartedWith | None = None
    owner: str = ""

    def want(self, name: str, ensembles: Iterable[ModelRecord] = ()) -> None:
        """Note that a model was loaded; ensembles that came back with it are wanted again too."""
        self.unloaded.pop(name, None)
        back = (r.name for r in ensembles if r.is_explicit and r.ready_versions)
        if name not in self.asked:
            self.asked.append(name)
        self.wanted += [each for each in dict.fromkeys((name, *back)) if each not in self.wanted]

    def forget(self, names: Iterable[str], records: Mapping[str, ModelRecord]) -> None:
        """Note that models were unloaded; one that could not be loaded anew is still wanted."""
        for name in names:
            for each in (self.wanted, self.asked):
                if name in each:
                    each.remove(name)
            record = records.get(name)
            if record is not None and record.unloaded_versions:
                self.unloaded[name] = list(record.unloaded_versions)


class DurableState:
    """The state, and the writing of it. Made by `restore` or `create`, on the event loop.

    Changes of ``saved`` are written by `schedule` or `save`; the latest wins.

    Attributes:
        saved: The state as it is, or soon will be, in the store.
        overrides: By model: what it was loaded with.
        secret: Key of the lanes' handshake. Never to be logged.
    """

    def __init__(
        self,
        store: FencedStore,
        saved: SavedState,
        overrides: dict[str, Override],
        secret: bytes,
    ) -> None:
        self.saved = saved
        self.overrides = overrides
        # Of those that are in the store.
        self._kept_bytes = {name: _size_of(override) for name, override in overrides.items()}
        self.secret = secret
        self._store = store
        self.check_fence = store.check
        self._writer = StoreWriter(store)
        self._generation = saved.generation
        # Highest number that a successor of this controller would find in the store.
        self._reserved = saved.generation

    @classmethod
    async def restore(
        cls, store: Store, on_superseded: Callable[[], None] = lambda: None
    ) -> "DurableState":
        """Take over from the previous incarnation of the controller, and read what it left."""
        fenced = await FencedStore.claim(store, on_superseded)
        return await cls._restored(fenced, await _latest(fenced))

    @classmethod
    async def _restored(cls, fenced: FencedStore, saved: SavedState) -> "DurableState":
        overrides = {}
        for key in await fenced.keys(_OVERRIDE_PREFIX):
            row = await fenced.get(key)
            if row is None:
                # Removed since the keys were read, by a write of the predecessor that came late.
                continue
            name = key.removeprefix(_OVERRIDE_PREFIX).decode()
            overrides[name] = msgspec.msgpack.decode(row, type=Override)
        return cls(fenced, saved, overrides, await _secret(fenced))

    @classmethod
    async def create(
        cls, store: Store, on_superseded: Callable[[], None] = lambda: None, owner: str = ""
    ) -> "DurableState":
        """Begin anew; only the secret and the numbers go on, since instances may be alive.

        What a controller of the same owner has left is restored: that server has lost it.

        Args:
            store: The cluster's store.
            on_superseded: Called when a later controller has taken over from this one.
            owner: Token of the server's owner; empty for nobody's.
        """
        fenced = await FencedStore.claim(store, on_superseded)
        before = await _latest(fenced)
        if owner and owner == before.owner:
            return await cls._restored(fenced, before)
        for key in await fenced.keys(_OVERRIDE_PREFIX):
            await fenced.delete(key)
        saved = SavedState(before.generation, owner=owner)
        state = cls(fenced, saved, {}, await _secret(fenced))
        await state.save()
        return state

    async def next_generation(self) -> int:
        """Return a number that no instance has had; a write, for which it waits, each thousandth.

        Raises:
            UnavailableError: The store does not take the number, which a successor of this
                controller might then use again.
        """
        self._generation += 1
        number = self._generation
        if number > self.saved.generation:
            self.saved.generation = number + _GENERATION_BLOCK
            self.schedule()
        if number > self._reserved:
            block = self.saved.generation
            if not await self._is_written():
                raise UnavailableError(
                    "the cluster's key-value store (GCS) takes no writes; try again when the head"
                    " of the Ray cluster is back"
                )
            self._reserved = max(self._reserved, block)
        return number

    def schedule(self) -> None:
        """Have ``saved`` written as it is when its turn comes."""
        self._writer.put(_state_key(self._store.number), self._encoded)

    async def save(self) -> None:
        """Have ``saved`` written and wait until it is, or for as long as a client can wait."""
        self.schedule()
        if not await self._is_written():
            _log.error("the controller's state is not on disk yet: GCS takes no writes")

    async def leave(self, content: bytes) -> None:
        """Keep what a successor of another release is started with, and write all else that waits.

        Args:
            content: See `cluster.controller.handover.Handover`.
        """
        self._writer.put(HANDOVER_KEY, lambda: content)
        await self.save()

    def save_override(self, name: str, override: Override) -> bool:
        """Have a model's override kept, or forgotten; False when there is no room for it.

        `save` waits for it too.
        """
        key = _OVERRIDE_PREFIX + name.encode()
        if override.config_json is None and not override.files:
            self._kept_bytes.pop(name, None)
            if self.overrides.pop(name, None) is not None:
                self._writer.delete(key)
            return True
        self.overrides[name] = override
        size_bytes = _size_of(override)
        kept_bytes = sum(self._kept_bytes.values()) - self._kept_bytes.pop(name, 0)
        if size_bytes > MAX_OVERRIDE_BYTES or kept_bytes + size_bytes > MAX_OVERRIDES_BYTES:
            # What an earlier load was given must not come back in its place.
            self._writer.delete(key)
            return False
        self._kept_bytes[name] = size_bytes
        self._writer.put(key, partial(msgspec.msgpack.encode, override))
        return True

    def forget_overrides(self) -> None:
        """Have all overrides forgotten, as where the repositories alone say what models are."""
        for name in list(self.overrides):
            self.save_override(name, NO_OVERRIDE)

    def has_files_of(self, name: str) -> bool:
        """Whether a model's files came with its load."""
        return name in self.overrides and bool(self.overrides[name].files)

    async def clear(self) -> None:
        """Stop writing and remove everything from the store but the row of the fence."""
        await self._writer.close()
        overrides = await self._store.keys(_OVERRIDE_PREFIX)
        states = await self._store.keys(STATE_PREFIX)
        for key in (*overrides, *states, LANE_SECRET_KEY, SECRETS_KEY, HANDOVER_KEY):
            await self._store.delete(key)

    def _encoded(self) -> bytes:
        return msgspec.msgpack.encode(self.saved)

    async def _is_written(self) -> bool:
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await self._writer.written()
        except TimeoutError:
            return False
        return True


def _size_of(override: Override) -> int:
    return len(override.config_json or "") + sum(map(len, override.files.values()))


def _state_key(number: int) -> bytes:
    return b"%s%020d" % (STATE_PREFIX, number)


async def _latest(store: Store) -> SavedState:
    """Read the latest controller's state, and remove what those before it left."""
    *earlier, latest = [_state_key(0), *sorted(await store.keys(STATE_PREFIX))]
    for key in earlier[1:]:
        await store.delete(key)
    data = await store.get(latest)
    return msgspec.msgpack.decode(data, type=SavedState) if data else SavedState()


async def _secret(store: Store) -> bytes:
    secret = await store.get(LANE_SECRET_KEY)
    if secret is None:
        secret = secrets.token_bytes(_SECRET_BYTES)
        await store.put(LANE_SECRET_KEY, lambda: secret)
    return secret
