# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ways from a router to the instances of models, and how they open and close."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from backends.api.errors import TritonError
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import SILENT_PERIODS, LaneClient, LaneInflight
from deployments.lane.messages import limits_of
from deployments.lane.tls import lane_tls
from deployments.routing.lost_requests import end_or_resend
from deployments.routing.node_pools import NodePools
from deployments.routing.pool import Link, LinkPool, ModelPools
from deployments.settings.lane_settings import LaneSettings
from deployments.slabs.pool import SlabPool
from deployments.supervision.backoff import Backoff
from deployments.supervision.supervisor import Supervisor

logger = logging.getLogger(__name__)

# A connection refused right after an instance started is retried within milliseconds; one that
# keeps failing belongs to a process that is dying, which the next table will say.
_RECONNECT_FIRST_S: Final = 0.01
_RECONNECT_MOST_S: Final = 1.0
# Some 5 s after the first.
_TOLD_ATTEMPT: Final = 12
_GREETING_TIMEOUT_S: Final = 5.0


# An instance's name and incarnation; its endpoint and model version.
_Key = tuple[str, str]
_Wanted = tuple[InstanceEndpoint, tuple[str, int]]

# What a lane calls when it ends: itself, and the requests that have no terminal outcome.
OnLost = Callable[[LaneClient, list[LaneInflight]], None]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a router does about instances that owe an answer and say nothing.

    Attributes:
        timeout_s: How long they may be silent.
        report: Tells the controller afterwards: an instance's name, its incarnation and the
            reason; may raise TritonError.
    """

    timeout_s: float
    report: Callable[[str, str, str], Awaitable[None]]


class LinkSet:
    """The links of one router: one for each incarnation of an instance in the routing table.

    Args:
        node_id: Ray node of this process.
        connect: Opens a lane to a link's instance.
        on_connected: Called when a link of a pool has its lane.
        opens_on_demand: Whether links to a model's instances open with `open_all`.
        own_incarnation: Instance in this process, which gets no link.
        heartbeat: What to do about silent instances; None to leave them alone.
        node_pools: Learns of the instances of this node.

    Attributes:
        greeting: Method and payload of the control call that each instance gets when a lane to it
            opens; None for no call.
    """

    def __init__(
        self,
        node_id: str,
        connect: Callable[[Link, OnLost], Awaitable[LaneClient]],
        on_connected: Callable[[LinkPool], None],
        *,
        opens_on_demand: bool = False,
        own_incarnation: str = "",
        heartbeat: Heartbeat | None = None,
        node_pools: NodePools,
    ) -> None:
        self._node_pools = node_pools
        self._node_id = node_id
        self._connect = connect
        self._on_connected = on_connected
        self._opens_on_demand = opens_on_demand
        self._own_incarnation = own_incarnation
        self._heartbeat = heartbeat
        self._supervisor = Supervisor("links")
        self._is_checking = False
        self._links: dict[_Key, Link] = {}
        # The open lanes, also those of links that are closed to new requests.
        self._lanes: dict[LaneClient, Link] = {}
        self.greeting: tuple[str, bytes] | None = None

    def all(self) -> list[Link]:
        """Return the links; those that close once they are idle are not among them."""
        return list(self._links.values())

    def sync(
        self,
        names: Collection[str],
        wanted: Mapping[_Key, _Wanted],
        leaving: Mapping[_Key, _Wanted],
        pools: ModelPools,
    ) -> None:
        """Open the links to new instances of some models, then close those to others of theirs.

        Args:
            names: Keys of the models; links to instances of others stay as they are.
            wanted: Endpoint and model version, by the instance's name and incarnation.
            leaving: The same of instances that finish their last requests; links to them stay
                open, for what they count, and are chosen no more. Where there are sequences, which
                go on there, links are opened, too.
            pools: Where the links of each model version are put; missing pools are made.
        """
        for pool in pools.of(names):
            pool.unopened.clear()
            pool.has_own = False
        for key, (endpoint, model_key) in wanted.items():
            if key in self._links:
                continue
            pool = pools.make(model_key)
            if self._restore(pool, key):
                continue
            if endpoint.incarnation == self._own_incarnation:
                pool.has_own = True
            elif self._opens_on_demand and not pool.is_used:
                pool.unopened.append(endpoint)
            else:
                self._open(pool, endpoint)
        # Only now: what waited for the last instances of a pool that go finds their successors.
        for link in [link for pool in pools.of(names) for link in pool.links]:
            key = key_of(link.endpoint)
            if key not in wanted:
                del self._links[key]
                self._retire(link, is_leaving=key in leaving)
        left = [link for pool in pools.of(names) for link in pool.leaving]
        for link in [link for link in left if key_of(link.endpoint) not in leaving]:
            _forget(link)
        for endpoint, model_key in leaving.values():
            version = pools.get(model_key)
            if version is not None and (version.is_used or not self._opens_on_demand):
                self.open_leaving(version, endpoint)

    def open_leaving(self, pool: LinkPool, endpoint: InstanceEndpoint) -> None:
        """Open a link to an instance that goes on with its sequences only, if there is none."""
        key = key_of(endpoint)
        is_known = key in self._links or _retired(pool, key) is not None
        if is_known or pool.sequences is None or endpoint.incarnation == self._own_incarnation:
            return
        link = self._new_link(pool, endpoint)
        link.closed = True
        pool.leaving[link] = pool.retired[link] = None

    def open_all(self, pool: LinkPool) -> bool:
        """Open the links that wait for the first request; return whether there were any."""
        pool.is_used = True
        unopened, pool.unopened = pool.unopened, []
        for endpoint in reversed(unopened):
            self._open(pool, endpoint)
        return bool(unopened)

    async def ask(
        self, links: Iterable[Link], method: str, timeout_s: float, payload: bytes = b""
    ) -> list[bytes | None]:
        """Call a control method on instances, all at once.

        Returns:
            For each link the answer; None for an instance that does not answer in time.
        """
        answers = await asyncio.gather(
            *(_asked(link, method, payload, timeout_s) for link in links), return_exceptions=True
        )
        return [answer if isinstance(answer, bytes) else None for answer in answers]

    def greet(self, method: str, payload: bytes) -> None:
        """Call a control method on every instance, also on those that come later."""
        self.greeting = (method, payload)
        self._greet(self.all())

    def _greet(self, links: list[Link]) -> None:
        if self.greeting is not None:
            method, payload = self.greeting
            calls = self.ask(links, method, _GREETING_TIMEOUT_S, payload)
            self._supervisor.spawn(f"call of '{method}'", calls)

    async def close(self) -> None:
        """Close all lanes; what is on them fails."""
        for key in list(self._links):
            drop(self._links.pop(key))
        await self._supervisor.close()

    def check(self) -> None:
        """Note that a period has passed; break off with the instances that are silent too long."""
        heartbeat = self._heartbeat
        for lane, link in list(self._lanes.items()):
            if heartbeat is not None and lane.is_unresponsive():
                name = link.endpoint.name
                reason = f"instance {name} showed no progress for {heartbeat.timeout_s:g} s"
                # Its unanswered requests are the router's again before this returns.
                lane.break_off(reason)
                report = _report(heartbeat, link.endpoint, reason)
                self._supervisor.spawn(f"report of {name}", report)

    async def _keep_checking(self, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)
            self.check()

    def _open(self, pool: LinkPool, endpoint: InstanceEndpoint) -> None:
        link = self._new_link(pool, endpoint)
        self._links[key_of(link.endpoint)] = link
        pool.links.append(link)

    def _new_link(self, pool: LinkPool, endpoint: InstanceEndpoint) -> Link:
        link = Link(endpoint, pool, is_local=endpoint.node_id == self._node_id)
        self._start_connecting(link)
        if self._heartbeat is not None and not self._is_checking:
            # Not before: there may be no event loop where a router is made.
            self._is_checking = True
            period_s = self._heartbeat.timeout_s / SILENT_PERIODS
            self._supervisor.keep("check of the lanes", lambda: self._keep_checking(period_s))
        return link

    def _retire(self, link: Link, *, is_leaving: bool) -> None:
        """Stop choosing a link; its lane closes when the last response has come.

        One to an instance that leaves stays open until that has left.
        """
        link.closed = True
        link.pool.links.remove(link)
        lane, sequences = link.lane, link.pool.sequences
        if lane is None and not (is_leaving and sequences is not None):
            drop(link)
            return
        if is_leaving:
            link.pool.leaving[link] = None
        if sequences is not None:
            link.pool.retired[link] = None
        is_needed = self._node_pools.retired(link)
        if lane is not None and not (is_needed or is_leaving or sequences is not None):
            lane.close_when_idle()

    def _restore(self, pool: LinkPool, key: _Key) -> bool:
        """Take up a link again whose instance had left the table: its sequences went on there."""
        link = _retired(pool, key)
        if link is None:
            return False
        link.closed = False
        self._links[key] = link
        pool.leaving.pop(link, None)
        pool.links.append(link)
        del pool.retired[link]
        self._node_pools.restored(link)
        return True

    def _start_connecting(self, link: Link) -> None:
        name = f"lane to {link.endpoint.name}"
        link.task = self._supervisor.spawn(name, self._keep_connecting(link))

    async def _keep_connecting(self, link: Link) -> None:
        backoff = Backoff(_RECONNECT_FIRST_S, _RECONNECT_MOST_S)
        for attempt in itertools.count(1):
            try:
                lane = await self._connect(
                    link, lambda lane, orphans: self._lost(link, lane, orphans)
                )
            except (OSError, TimeoutError, TritonError) as error:
                # An instance that starts again is known to the controller's log: one line here, if
                # it lasts.
                level = logging.WARNING if attempt == _TOLD_ATTEMPT else logging.DEBUG
                logger.log(level, "lane to %s: %s; trying again", link.endpoint.name, error)
            except Exception:
                # Whatever it is: requests wait for this link, and it may be over in a second.
                logger.exception("lane to %s: fault; trying again", link.endpoint.name)
            else:
                self._connected(link, lane)
                return
            await asyncio.sleep(backoff.next_s())

    def _connected(self, link: Link, lane: LaneClient) -> None:
        link.task = None
        if link.closed and link not in link.pool.leaving:
            lane.close()
            return
        link.lane = lane
        self._lanes[lane] = link
        self._node_pools.connected(link, lane)
        self._greet([link])
        self._on_connected(link.pool)

    def _lost(self, link: Link, lane: LaneClient, orphans: list[LaneInflight]) -> None:
        self._lanes.pop(lane, None)
        link.lane = None
        link.pool.leaving.pop(link, None)
        link.pool.retired.pop(link, None)
        self._node_pools.lost(link)
        if not link.closed:
            self._start_connecting(link)
        end_or_resend(link, lane.crash, orphans, was_draining=lane.draining)


async def open_lane(
    secret: bytes, slabs: SlabPool, lanes: LaneSettings, link: Link, on_lost: OnLost
) -> LaneClient:
    """Open the lane of a link; see `LaneClient`."""
    lane = LaneClient(
        link.endpoint,
        same_node=link.is_local,
        secret=secret,
        slabs=slabs,
        on_lost=on_lost,
        limits=limits_of(lanes),
    )
    return await lane.open(None if link.is_local else lane_tls(lanes.tls, secret).client)


async def _asked(link: Link, method: str, payload: bytes, timeout_s: float) -> bytes | None:
    return None if link.lane is None else await link.lane.call(method, payload, timeout_s)


async def _report(heartbeat: Heartbeat, endpoint: InstanceEndpoint, reason: str) -> None:
    try:
        await heartbeat.report(endpoint.name, endpoint.incarnation, reason)
    except TritonError as error:
        # It asks the instances itself when it is back.
        logger.info("report of %s: %s", endpoint.name, error)


def key_of(endpoint: InstanceEndpoint) -> _Key:
    """Return what tells an instance from all others, and from those before it of its name."""
    return endpoint.name, endpoint.incarnation


def drop(link: Link) -> None:
    """Close a link at once; what is on its lane fails."""
    link.closed = True
    if link.task is not None:
        link.task.cancel()
    if link.lane is not None:
        link.lane.close()


def _forget(link: Link) -> None:
    """Let go of an instance that has left; with sequences its end closes the lane."""
    pool = link.pool
    pool.leaving.pop(link, None)
    if link.lane is None:
        pool.retired.pop(link, None)
        drop(link)
    elif pool.sequences is None:
        link.lane.close_when_idle()


def _retired(pool: LinkPool, key: _Key) -> Link | None:
    return next((each for each in pool.retired if key_of(each.endpoint) == key), None)
