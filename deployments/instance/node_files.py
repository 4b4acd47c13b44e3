# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node's model files, of one process: its cache, what other nodes may ask of it, and how it asks.

One process of each node does all downloads, so that the libraries of stores are in its memory only,
and instances of the node never download the same twice. Instances pin what they use themselves.
"""

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from backends.api.errors import InternalError, ResourceExhaustedError, UnavailableError
from deployments.lane.handshake import NONCE_BYTES, ClientHandshake, ServerHandshake
from deployments.lane.tls import lane_tls
from deployments.model_files.blobs import Blobs, content_key
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import (
    FileChangedError,
    FileSource,
    ModelChangedError,
    ModelFiles,
    OpenSource,
)
from deployments.model_files.counters import CacheStatistics, OnProgress
from deployments.model_files.layout import cache_folder
from deployments.model_files.loaded import (
    FolderSource,
    OriginSource,
    is_of_load,
    list_folder,
    origin_of,
)
from deployments.model_files.locks import StoppedError
from deployments.model_files.peer_server import PeerServer
from deployments.model_files.peers import SMALLEST_BYTES, PeeredSource, Peers
from deployments.model_files.prefetch import (
    CacheView,
    NoFreeRoomError,
    Outcome,
    Prefetched,
    PrefetchTurn,
)
from deployments.model_files.registry import Registry
from deployments.model_files.statistics_file import StatisticsFile
from deployments.settings.lane_settings import DEFAULT_LANES, LaneSettings

# Makes of the directory of a model's files, the first, what is loaded, in the second, empty one.
MakeTree = Callable[[Path, Path], None]

# What an instance gets to pin the files that were fetched for it; it does so at once.
_HELD_S: Final = 60.0
_MIB: Final = 1 << 20

_log = logging.getLogger(__name__)


def _no_origin(location: str) -> str:
    raise UnavailableError(f"no node gives the files of a load at '{location}'")


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where other nodes reach a node's cache.

    Attributes:
        host: Address to bind, and to be found at.
        lanes: The server's options about lanes.
    """

    host: str
    lanes: LaneSettings = DEFAULT_LANES


class NodeFiles:
    """What one process of a node does for all instances there. Used from several threads.

    Args:
        directory: Folder of the cache; empty for this user's own.
        max_bytes: What it may hold; see `NodeCache`.
        secret: Key of the handshake between nodes.
        address: Where other nodes reach this one.
        registry: Which nodes have what.
        open_store: Opens the source of a model's location.
        node: This node; the cache's folder tells what was done for it.
        find_origin: Has another node `offer` the files of a load; returns what that does.

    Raises:
        OSError: The folder cannot be made, or belongs to another user.
        UnavailableError: All ports for other nodes are in use.
    """

    def __init__(
        self,
        directory: str,
        max_bytes: int,
        secret: bytes,
        address: PeerAddress,
        registry: Registry,
        open_store: OpenSource,
        node: str,
        find_origin: Callable[[str], str] = _no_origin,
    ) -> None:
        self._node = node
        self._find_origin = find_origin
        self._offering = threading.Lock()
        self._offers: dict[str, Path] = {}
        self._prefetch_turn = PrefetchTurn()
        self._cache = NodeCache(cache_folder(directory), max_bytes)
        self._statistics = StatisticsFile(self._cache.layout, node, self._cache.statistics)
        self._registry = registry
        self._open_store = open_store
        tls = lane_tls(address.lanes.tls, secret)
        self._server = PeerServer(
            self._cache.layout,
            lambda: ServerHandshake(secret, secrets.token_bytes(NONCE_BYTES)),
            address.host,
            address.lanes.ports,
            tls=tls.server,
        )
        self._peers = Peers(
            lambda: ClientHandshake(secret, secrets.token_bytes(NONCE_BYTES)),
            tls.client,
        )

    def announce(self) -> None:
        """Tell other nodes what the cache has from earlier; blocks long where that is much."""
        for key, sha256 in Blobs(self._cache.layout).known(SMALLEST_BYTES):
            self._registry.announce(key, self._server.address, sha256)

    def ensure(
        self,
        model_name: str,
        files: ModelFiles,
        make: MakeTree | None = None,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Have all files of a model on this node, for a minute at least.

        Args:
            model_name: The model.
            files: What shall be here.
            make: Has their agents run; needed when they have some.
            on_progress: Called with bytes there and bytes of all, at most once a second.

        Returns:
            Their directory.

        Raises:
            TritonError: What ``make`` raises.
            ModelChangedError: What the store has changes meanwhile.
            UnavailableError: The store or what it has cannot be read.
            ResourceExhaustedError: There is no room for them.
            InvalidArgumentError: A path leads out of the model's directory.
            InternalError: The cache's folder cannot be written.
        """

        def tell(there_bytes: int, all_bytes: int) -> None:
            _log.info(
                "files of model '%s': %d of %d MiB are here",
                model_name,
                there_bytes // _MIB,
                all_bytes // _MIB,
            )
            if on_progress is not None:
                on_progress(there_bytes, all_bytes)

        with self._errors_of(model_name, files):
            directory = self._before_prefetches(files, tell, make)
        release = threading.Timer(_HELD_S, self._release, (directory,))
        release.daemon = True
        release.start()
        return directory

    def prefetch(self, model_name: str, files: ModelFiles, fraction: float) -> Prefetched:
        """Have all files of a model on this node before anybody needs them.

        Agents do not run over them yet. Nothing leaves for them, they leave first, and they stop
        coming while others are brought that somebody waits for.

        Args:
            model_name: The model.
            files: What shall be here.
            fraction: Part of what the cache may hold up to which there is room.

        Raises:
            TritonError: As `ensure` does, but not for want of room.
        """
        plain = replace(files, agents=())
        outcome, wanted_bytes = Outcome.THERE, 0
        with self._errors_of(model_name, files):
            try:
                with self._prefetch_turn.taken(plain.key()) as stop:
                    self._cache.prefetch(plain, self._source, fraction, stop)
            except NoFreeRoomError as error:
                outcome, wanted_bytes = Outcome.NO_ROOM, error.wanted_bytes
            except StoppedError:
                outcome = Outcome.STOPPED
                self._leave_to_others(plain)
        return Prefetched(outcome, self._cache.free_bytes(fraction), wanted_bytes)

    def stop_prefetch(self) -> None:
        """Stop what is being prefetched; the next goes on where it was."""
        self._prefetch_turn.stop()

    def view(self, keys: Collection[str], fraction: float) -> CacheView:
        """Return what the cache has.

        Args:
            keys: Of files, without agents.
            fraction: As for `prefetch`.
        """
        held = tuple(filter(self._cache.has, keys))
        return CacheView(held, self._cache.free_bytes(fraction))

    @property
    def has_offers(self) -> bool:
        """Whether files of loads lie here for other nodes."""
        return bool(self._offers)

    def offer(self, location: str) -> str:
        """Take files that came with a load into the cache, from where other nodes read them.

        They stay until they are withdrawn. A second call does nothing.

        Args:
            location: Theirs, on this node.

        Returns:
            The address where nodes ask.

        Raises:
            UnavailableError: They are gone.
            ResourceExhaustedError: There is no room for them.
            InternalError: They cannot be read, or the cache's folder cannot be written.
        """
        with self._offering:
            if location not in self._offers:
                try:
                    self._offers[location] = self._cache.ensure(
                        list_folder(location),
                        lambda location: FolderSource(location, self._cache.counters),
                    )
                except OSError as error:
                    raise InternalError(
                        f"the files of a load at '{location}' cannot be put into the node's cache: "
                        f"{error}"
                    ) from None
        return self._server.address

    def withdraw(self, *, all_but: Collection[str]) -> None:
        """Let go of what was offered, but for some locations; nobody loads from it any more."""
        with self._offering:
            for location in self._offers.keys() - set(all_but):
                self._release(self._offers.pop(location))

    def statistics(self) -> CacheStatistics:
        """Return what was done for the instances of this node."""
        return self._cache.statistics()

    def _tell_statistics(self) -> None:
        try:
            self._statistics.write()
        except OSError as error:
            # No load fails for want of its metrics.
            _log.warning("the counters of the node's cache cannot be written: %s", error)

    def close(self) -> None:
        """Serve other nodes no more, and let go of everything."""
        self._statistics.close()
        self._server.close()
        self._peers.close()
        self._cache.close()

    @contextlib.contextmanager
    def _errors_of(self, model_name: str, files: ModelFiles) -> Iterator[None]:
        try:
            yield
        except FileChangedError as change:
            raise ModelChangedError(
                f"the files of model '{model_name}' at '{files.location}' changed while they were "
                f"downloaded: {change}; load the model again once its upload is complete"
            ) from None
        except OSError as error:
            raise InternalError(
                f"the files of model '{model_name}' cannot be written to the node's cache: {error}"
            ) from None
        finally:
            self._tell_statistics()

    def _leave_to_others(self, files: ModelFiles) -> None:
        """Have other nodes ask the store for what this one does not get after all."""
        blobs = Blobs(self._cache.layout)
        for file in files.files:
            if file.size_bytes >= SMALLEST_BYTES and blobs.find(files.location, file) is None:
                key = content_key(files.location, file)
                self._registry.leave(key, self._server.address)

    def _before_prefetches(
        self, files: ModelFiles, tell: OnProgress, make: MakeTree | None
    ) -> Path:
        with self._prefetch_turn.needed(replace(files, agents=()).key()) as has_stopped:
            try:
                return self._directory(files, tell, make)
            except ResourceExhaustedError:
                if not has_stopped:
                    raise
            # What was being prefetched can leave only now.
            self._prefetch_turn.wait_over()
            return self._directory(files, tell, make)

    def _directory(self, files: ModelFiles, tell: OnProgress, make: MakeTree | None) -> Path:
        if is_of_load(files.location) and origin_of(files.location)[0] == self._node:
            self.offer(files.location)
        if not files.agents or make is None:
            return self._cache.ensure(files, self._source, tell)
        found = self._cache.find(files)
        if found is not None:
            return found
        plain = self._cache.ensure(replace(files, agents=()), self._source, tell)
        try:
            return self._cache.derive(files.key(), partial(make, plain), files.size_bytes)
        finally:
            self._cache.release(plain)

    def _release(self, directory: Path) -> None:
        # Closing has let go of all.
        with contextlib.suppress(KeyError):
            self._cache.release(directory)

    def _open(self, location: str) -> FileSource:
        if is_of_load(location):
            return OriginSource(location, self._peers, self._find_origin, self._cache.counters)
        return self._open_store(location)

    def _source(self, location: str) -> FileSource:
        return PeeredSource(
            self._peers,
            self._registry,
            self._server.address,
            location,
            self._open(location),
            self._cache.counters,
        )
