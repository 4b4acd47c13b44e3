# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller must know again after it was killed, kept in the cluster's key-value store.

The instances themselves carry their specs; options are an argument of the controller's
constructor. What is left, and kept here: the models users asked for and unloaded, the overrides
they were loaded with, the last generation number, and the key of the lanes. The store is Ray's own
(GCS), so it is as durable as the cluster is.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from cluster.models.override import Override
from cluster.models.states import ModelRecord
from deployments.settings.server_settings import ServerSettings

_STORE = b"manta"
_STATE_KEY = b"controller/state"
_SECRET_KEY = b"controller/secret"
_OVERRIDE_PREFIX = b"controller/override/"
_SECRET_BYTES = 32
# Numbers are reserved in blocks, so that a load costs no write.
_GENERATION_BLOCK = 1000
# The head keeps the store in memory: an override with larger files lasts as long as the controller.
MAX_OVERRIDE_BYTES = 64 * 1024 * 1024


class SavedState(msgspec.Struct):
    """The small part of the state.

    Attributes:
        generation: Highest generation number that may be in use.
        wanted: Models to be loaded in explicit mode.
        unloaded: Versions of unloaded models, for the index.
        is_initialised: Whether start-up loading was done once.
        settings: What clients have changed of the server; None while nothing.
        router_ids: The routers that follow the routing table.
    """

    generation: int = 0
    wanted: list[str] = []
    unloaded: dict[str, list[int]] = {}
    is_initialised: bool = False
    settings: ServerSettings | None = None
    router_ids: list[str] = []

    def want(self, name: str, records: Iterable[ModelRecord]) -> None:
        """Note that a model was loaded; ensembles that came back with it are wanted again too."""
        self.unloaded.pop(name, None)
        back = (r.name for r in records if r.is_explicit and r.ready_versions)
        self.wanted = list(dict.fromkeys((*self.wanted, name, *back)))

    def forget(self, names: Collection[str], records: Iterable[ModelRecord]) -> None:
        """Note that models were unloaded; one that could not be loaded anew is still wanted."""
        self.wanted = [name for name in self.wanted if name not in names]
        unloaded = {record.name: record.unloaded_versions for record in records}
        self.unloaded = {name: list(versions) for name, versions in unloaded.items() if versions}


class _SavedOverride(msgspec.Struct):
    config_json: str | None
    files: dict[str, bytes]
    directory_digest: str = ""


@dataclass(slots=True)
class DurableState:
    """The state, and the writing of it.

    Attributes:
        saved: The state as in the store.
        overrides: By model: what it was loaded with.
        secret: Key of the lanes' handshake.
    """

    saved: SavedState = field(default_factory=SavedState)
    overrides: dict[str, Override] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    _generation: int = 0

    @classmethod
    async def restore(cls) -> "DurableState":
        """Read what the previous incarnation of the controller left."""
        return await asyncio.to_thread(cls._restore)

    @classmethod
    async def create(cls) -> "DurableState":
        """Begin anew; only the secret and the numbers go on, since instances may be alive."""
        return await asyncio.to_thread(cls._create)

    @classmethod
    def _restore(cls) -> "DurableState":
        data = _get(_STATE_KEY)
        saved = msgspec.msgpack.decode(data, type=SavedState) if data else SavedState()
        overrides = {}
        for key in _internal_kv_list(_OVERRIDE_PREFIX, namespace=_STORE):
            override = msgspec.msgpack.decode(_get(key) or b"", type=_SavedOverride)
            name = key[len(_OVERRIDE_PREFIX) :].decode()
            overrides[name] = Override(
                override.config_json, override.files, override.directory_digest
            )
        return cls(saved, overrides, _secret(), saved.generation)

    @classmethod
    def _create(cls) -> "DurableState":
        before = cls._restore()
        for name in before.overrides:
            _delete(_OVERRIDE_PREFIX + name.encode())
        generation = before.saved.generation
        state = cls(SavedState(generation), {}, before.secret, generation)
        state._write()
        return state

    def next_generation(self) -> int:
        """Return a number that no instance has had. Writes once in a thousand calls."""
        self._generation += 1
        if self._generation > self.saved.generation:
            self.saved.generation = self._generation + _GENERATION_BLOCK
            self._write()
        return self._generation

    async def save(self) -> None:
        """Write ``saved``."""
        await asyncio.to_thread(self._write)

    async def save_override(self, name: str, override: Override) -> bool:
        """Keep a model's override, or forget it; False when it is too big to be kept."""
        key = _OVERRIDE_PREFIX + name.encode()
        if override.config_json is None and not override.files:
            if self.overrides.pop(name, None) is not None:
                await asyncio.to_thread(_delete, key)
            return True
        self.overrides[name] = override
        if sum(map(len, override.files.values())) > MAX_OVERRIDE_BYTES:
            return False
        saved = _SavedOverride(
            override.config_json, dict(override.files), override.directory_digest
        )
        data = msgspec.msgpack.encode(saved)
        await asyncio.to_thread(_put, key, data)
        return True

    def has_files_of(self, name: str) -> bool:
        """Whether a model's files came with its load."""
        return name in self.overrides and bool(self.overrides[name].files)

    async def clear(self) -> None:
        """Remove everything from the store."""
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        for name in self.overrides:
            _delete(_OVERRIDE_PREFIX + name.encode())
        _delete(_STATE_KEY)
        _delete(_SECRET_KEY)

    def _write(self) -> None:
        _put(_STATE_KEY, msgspec.msgpack.encode(self.saved))


def _secret() -> bytes:
    _internal_kv_put(
        _SECRET_KEY, secrets.token_bytes(_SECRET_BYTES), overwrite=False, namespace=_STORE
    )
    return _get(_SECRET_KEY) or b""


def _get(key: bytes) -> bytes | None:
    value: Any = _internal_kv_get(key, namespace=_STORE)
    return None if value is None else bytes(value)


def _put(key: bytes, value: bytes) -> None:
    _internal_kv_put(key, value, overwrite=True, namespace=_STORE)


def _delete(key: bytes) -> None:
    _internal_kv_del(key, namespace=_STORE)
