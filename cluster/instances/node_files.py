# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The actor that fetches model files for the instances of a node, one on each node that needs it.

The first instance of a node whose model is in a store, or whose files came with a load on another
node, starts it. The controller ends all of them with the server; what they have fetched stays in
the nodes' caches.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import ray
from ray.exceptions import RayError, RayTaskError

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.api.evolving import evolves
from backends.config.pbtxt import to_json
from cluster.actors.calls import call, cause_of, for_each_actor, kill_actor, start_on_node
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.instances.host import Knock
from cluster.instances.reachability import knock
from cluster.repository.agents.contracts import Action
from cluster.threads import GCS, NODES
from deployments.instance.spec import NAMESPACE, InstanceSpec
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.loaded import origin_of
from deployments.model_files.prefetch import CacheView, Prefetched
from deployments.settings.lane_settings import DEFAULT_LANES, LaneSettings

if TYPE_CHECKING:
    from cluster.actors.file_registry import FileRegistry
    from deployments.instance.node_files import NodeFiles

NAME_PREFIX: Final = "model-files@"
# Downloads wait for each other, and for the store, on threads.
_THREADS: Final = 64
# What a node that does not answer may hold up.
_KNOCK_TIMEOUT_S: Final = 5.0
_WITHDRAW_TIMEOUT_S: Final = 5.0
_AGENTS_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class NodeFilesSettings:
    """What the actor of a node is started with; the same on all nodes.

    Attributes:
        directory: Folder of the node's cache.
        max_bytes: What it may hold.
        log_level: Level of the actor's log.
        lanes: The server's options about lanes.
    """

    directory: str
    max_bytes: int
    log_level: str
    lanes: LaneSettings = DEFAULT_LANES


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files of a version that an instance needs.

    Attributes:
        files: What it is loaded from.
        config_json: Its config, for its agents.
    """

    model_name: str
    model_key: str
    version: int
    files: ModelFiles
    config_json: str


evolves(NodeFilesSettings, Wanted)


class _Reports:
    """Tells the controller how far a download is, and when it has ended; never waits for it."""

    def __init__(self, wanted: Wanted, node_id: str) -> None:
        self._wanted = wanted
        self._node_id = node_id
        self._controller: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._controller is not None:
            self.tell(0, 0)

    def tell(self, there_bytes: int, all_bytes: int) -> None:
        # A controller that is away learns it from the next.
        with contextlib.suppress(RayError, ValueError):
            if self._controller is None:
                self._controller = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
            self._controller.report_download.remote(
                self._wanted.model_key,
                self._wanted.version,
                self._node_id,
                there_bytes,
                all_bytes,
            )


class _Uses:
    """Since when nobody uses something; each use is a ``with``, of any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._over_s = time.monotonic()

    def __enter__(self) -> Self:
        with self._lock:
            self._count += 1
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._count -= 1
            self._over_s = time.monotonic()

    @property
    def over_s(self) -> float:
        """For how many seconds nobody has; 0.0 while somebody does."""
        with self._lock:
            return 0.0 if self._count else time.monotonic() - self._over_s


def _announce(registry: "FileRegistry", files: "NodeFiles") -> None:
    """Remove what ended nodes have left, this one's former address included; then announce."""
    left = registry.contents()
    for node in asyncio.run(_unreachable(left)):
        for key in left[node]:
            registry.leave(key, node)
    files.announce()


async def _unreachable(nodes: Collection[str]) -> list[str]:
    addresses = [node.rpartition(":") for node in nodes]
    knocks = (knock((host, int(port)), _KNOCK_TIMEOUT_S) for host, _, port in addresses)
    found = await asyncio.gather(*knocks)
    return [node for node, what in zip(nodes, found, strict=True) if what is not Knock.TAKEN]


class NodeFilesActor:
    """The actor; made by `fetch_to_node` and `offer_files`."""

    def __init__(self, settings: NodeFilesSettings) -> None:
        # Every instance imports this module; only this actor needs what reads stores.
        from cluster.actors.file_registry import FileRegistry, Rows  # noqa: PLC0415
        from cluster.actors.lane_secret import kept_lane_secret  # noqa: PLC0415
        from cluster.repository.agents.followed import FollowedAgents  # noqa: PLC0415
        from cluster.repository.stores.source import open_source  # noqa: PLC0415
        from deployments.instance.node_files import NodeFiles, PeerAddress  # noqa: PLC0415

        logging.basicConfig(level=settings.log_level)
        self._node_id: str = ray.get_runtime_context().get_node_id()
        self._agents = FollowedAgents()
        self._uses = _Uses()
        self._prefetches = _Uses()
        registry = FileRegistry(Rows())
        self._files = NodeFiles(
            settings.directory,
            settings.max_bytes,
            kept_lane_secret(),
            PeerAddress(ray.util.get_node_ip_address(), settings.lanes),
            registry,
            open_source,
            self._node_id,
            partial(offer_files, settings),
        )
        # An actor that was started anew has another address, and a cache that others may ask.
        announce = partial(_announce, registry, self._files)
        threading.Thread(target=announce, name="manta-announce", daemon=True).start()

    def ready(self) -> None:
        """Return when it can be asked."""

    def ensure(self, wanted: Wanted) -> None:
        """Fetch files, and have the model's agents run over them; see `NodeFiles.ensure`."""
        from cluster.repository.agents.run import AgentChain, make_tree  # noqa: PLC0415

        files = wanted.files
        agents = (wanted.model_name, files.agents, wanted.config_json)
        with self._uses, _Reports(wanted, self._node_id) as reports:
            directory = self._files.ensure(
                wanted.model_name, files, partial(make_tree, *agents), reports.tell
            )
        if files.agents:
            self._agents.follow(files.key(), directory, partial(AgentChain, *agents))

    def prefetch(self, model_name: str, files: ModelFiles, fraction: float) -> Prefetched:
        """Fetch files that nobody needs yet; see `NodeFiles.prefetch`."""
        with self._prefetches:
            return self._files.prefetch(model_name, files, fraction)

    def stop_prefetch(self) -> None:
        """Stop that; see `NodeFiles.stop_prefetch`."""
        self._files.stop_prefetch()

    def view(self, keys: Collection[str], fraction: float) -> CacheView:
        """Return what the cache has; see `NodeFiles.view`."""
        return self._files.view(keys, fraction)

    def tell_agents(self, key: str, action: Action) -> None:
        """Tell agents what came of a load; see `FollowedAgents.tell`."""
        self._agents.tell(key, action)

    def offer(self, location: str) -> str:
        """Take files of a load that this node has into its cache; see `NodeFiles.offer`."""
        return self._files.offer(location)

    def withdraw(self, all_but: Collection[str]) -> None:
        """Let go of such files; see `NodeFiles.withdraw`."""
        self._files.withdraw(all_but=all_but)

    def unused_s(self, is_leaving: bool) -> float:
        """Return for how many seconds nobody has needed it; 0.0 while somebody does.

        Args:
            is_leaving: Whether the node goes, and with it what it offers to others, and what is
                prefetched.
        """
        if is_leaving:
            return self._uses.over_s
        has_duties = self._files.has_offers or not self._agents.is_empty
        return 0.0 if has_duties else min(self._uses.over_s, self._prefetches.over_s)

    def statistics(self) -> dict[str, float]:
        """Return the counters of `CacheStatistics`, by name."""
        return asdict(self._files.statistics())


def fetch_to_node(spec: InstanceSpec) -> None:
    """Have the files of a spec on this node; not on an event loop.

    Raises:
        TritonError: They cannot be fetched, or one of the model's agents refuses; the message says
            why.
    """
    assert spec.files is not None  # noqa: S101 - the caller has looked
    wanted = Wanted(
        spec.model_name,
        spec.model_key,
        spec.version,
        spec.files,
        to_json(spec.config).decode() if spec.files.agents else "{}",
    )
    node_id: str = ray.get_runtime_context().get_node_id()
    settings = NodeFilesSettings(
        spec.model_cache_directory,
        spec.model_cache_max_bytes,
        spec.log_level,
        spec.lanes,
    )
    handle = start_node_files(settings, node_id)
    what = f"for model '{spec.model_name}'"
    _ask(handle.ensure.remote(wanted), node_id, what)


def offer_files(settings: NodeFilesSettings, location: str) -> str:
    """Have the node that a location names give its files of a load; not on an event loop.

    Returns:
        The address where nodes ask for them.

    Raises:
        TritonError: The node does not have them any more, or has no room for them in its cache.
    """
    node_id, folder = origin_of(location)
    handle = start_node_files(settings, node_id)
    return str(_ask(handle.offer.remote(location), node_id, f"with '{folder}'"))


def withdraw_files(all_but: Collection[str]) -> None:
    """Have all nodes let go of files of loads but those of some locations; not on an event loop."""
    _tell_all(lambda handle: handle.withdraw.remote(tuple(all_but)), _WITHDRAW_TIMEOUT_S)


def tell_agents(key: str, action: Action) -> None:
    """Tell the agents that ran over files, on all nodes; not on an event loop.

    Returns when they have heard, or after a minute: a model is not kept for an agent that hangs.
    """
    _tell_all(lambda handle: handle.tell_agents.remote(key, action), _AGENTS_TIMEOUT_S)


def _tell_all(call: Callable[[Any], Any], timeout_s: float) -> None:
    """Call the actors of all nodes; one that does not answer in time is left alone."""
    calls: list[Any] = []
    for_each_actor(NAME_PREFIX, lambda handle: calls.append(call(handle).future()))
    deadline_s = time.monotonic() + timeout_s
    for each in calls:
        with contextlib.suppress(RayError, TimeoutError):
            each.result(max(0.0, deadline_s - time.monotonic()))


def _ask(reference: Any, node_id: str, what: str) -> Any:
    """Return the answer of a node's actor, or raise its error."""
    try:
        # Not ray.get, which warns wherever it is called in an actor that has an event loop.
        return reference.future().result()
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TritonError):
            raise cause from None
        raise InternalError(f"{type(cause).__name__}: {cause}") from error
    except RayError as error:
        raise UnavailableError(
            f"the process that fetches files of models to node {node_id} ended while it did so "
            f"{what}: {cause_of(error)}"
        ) from error


def start_node_files(settings: NodeFilesSettings, node_id: str) -> Any:
    """Return the handle of a node's actor, started where it is not; not on an event loop.

    Raises:
        UnavailableError: It does not start.
    """
    return start_on_node(
        NodeFilesActor,
        f"{NAME_PREFIX}{node_id}",
        node_id,
        f"the process that fetches files of models to node {node_id}",
        settings,
        max_concurrency=_THREADS,
    )


def end_node_files() -> None:
    """End these actors on all nodes; not on an event loop."""
    for_each_actor(NAME_PREFIX, kill_actor)


async def prefetch_to_node(
    settings: NodeFilesSettings, node_id: str, model_name: str, files: ModelFiles, fraction: float
) -> Prefetched:
    """Have a node fetch files that nobody needs yet; see `NodeFiles.prefetch`.

    Raises:
        TritonError: They cannot be fetched; the message says why.
    """
    handle = await NODES.run(start_node_files, settings, node_id)
    try:
        # One that another release has started may not know the call.
        found: Prefetched = await call(handle.prefetch.remote(model_name, files, fraction))
    except (RayError, AttributeError) as error:
        raise UnavailableError(
            f"the process that fetches files of models to node {node_id} does not fetch those of "
            f"model '{model_name}': {cause_of(error)}"
        ) from error
    return found


async def view_of_cache(node_id: str, keys: Collection[str], fraction: float) -> CacheView | None:
    """Return what a node's cache has; None when no process there can tell, for none is started."""
    handle = await GCS.run(_find, node_id)
    if handle is None:
        return None
    try:
        view: CacheView = await call(handle.view.remote(tuple(keys), fraction))
    except (RayError, AttributeError):
        return None
    return view


def stop_prefetch(node_ids: Collection[str]) -> None:
    """Have nodes stop what they prefetch; waits for none of them, and not on an event loop."""
    for handle in map(_find, node_ids):
        if handle is not None:
            with contextlib.suppress(RayError, AttributeError):
                handle.stop_prefetch.remote()


def _find(node_id: str) -> Any:
    try:
        return ray.get_actor(f"{NAME_PREFIX}{node_id}", namespace=NAMESPACE)
    except (RayError, ValueError):
        return None
