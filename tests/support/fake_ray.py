# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The calls of Ray that the modules around it make, in one process and without any Ray.

Actors are plain objects, whose methods run at once in the caller's thread; a coroutine runs to its
end. What a test holds (`FakeRay.held`) waits until it is let go, or until its actor dies. Errors
are Ray's own. A name is taken while its actor lives and free once it was killed, and with
``get_if_exists`` the second caller gets the first one's actor. Placement groups wait for a test to
place them, keep their row in the table when they are removed, and go with the controller unless
they are detached. Time passes only where somebody waits for it: `FakeRay` stands for the module
``time`` too, and whatever is in ``meanwhile`` happens during the waits, one thing in each.

It does not: copy or pickle arguments and answers; check resources, labels or scheduling strategies;
run two calls at once; order calls of one actor; start processes or keep a namespace apart from
another; repeat a call; count references.
"""

import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import ray
from ray._private import state
from ray.exceptions import GetTimeoutError, RpcError
from ray.experimental import internal_kv

from deployments.instance.spec import NAMESPACE
from tests.support.fake_ray_actors import FakeActor, Future, Handle, Reference, Remote


class FakeRay:
    """A cluster of one node, until a test adds others.

    Attributes:
        now_s: The time.
        meanwhile: What happens while somebody waits, in this order.
        actors: Those with a name that are alive.
        held: Methods, and functions, whose calls wait.
        failures: By method, or function, what Ray answers its next calls with, each once.
        calls: All there were of actors: its name, the method and the arguments.
        groups: The table of placement groups, by id.
        there: Rows of ``ray.nodes()``.
        free: What is free, by node.
        draining: Ids of nodes that drain.
        rows: The key-value store.
        cancelled: Answers of tasks that somebody wanted ended, and whether by force; none ends.
        is_away: Whether the head does not answer; all calls of the cluster then fail.
        is_initialized: Whether this process is part of the cluster.
    """

    node_id = "aa" * 28
    gcs_address = "127.0.0.1:6379"

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile: list[Callable[[], object]] = []
        self.actors: dict[str, FakeActor] = {}
        self.held: set[str] = set()
        self.failures: dict[str, list[Exception]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.groups: dict[str, dict[str, Any]] = {}
        self.there: list[dict[str, Any]] = []
        self.free: dict[str, dict[str, float]] = {}
        self.draining: set[str] = set()
        self.rows: dict[bytes, bytes] = {}
        self.is_away = False
        self.is_initialized = False
        self.joined: list[dict[str, Any]] = []
        self.cancelled: list[tuple[Reference, bool]] = []
        self.numbers = itertools.count(1)
        self.current_actor: Any = None
        self.was_current_actor_reconstructed = False
        self.add_node(self.node_id, {"CPU": 8.0})

    def add_node(self, node_id: str, total: dict[str, float], **row: Any) -> None:
        """Have another node, which is free."""
        self.free[node_id] = dict(total)
        address = {"NodeManagerAddress": f"10.0.0.{len(self.there)}", "NodeManagerHostname": "host"}
        self.there.append({"NodeID": node_id, "Alive": True, "Resources": total} | address | row)

    def remove_node(self, node_id: str) -> None:
        """Have a node leave: Ray lists it as dead, and its actors end."""
        for node in self.there:
            node["Alive"] = node["Alive"] and node["NodeID"] != node_id
        self.free.pop(node_id, None)

    # What callers see of time.

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def wait_for(self, answer: Future, timeout_s: float | None) -> None:
        """Let what happens meanwhile happen until there is an answer, or the time is over."""
        while not answer.done() and self.meanwhile:
            self.meanwhile.pop(0)()
        if not answer.done():
            assert timeout_s is not None, "this would wait for ever"
            self.now_s += timeout_s
            raise TimeoutError

    # Actors.

    def require_there(self) -> None:
        if self.is_away:
            raise RpcError("failed to connect to GCS")

    def remote(self, *kinds: Any, **options: Any) -> Any:
        return (
            Remote(self, kinds[0], options) if kinds else lambda kind: Remote(self, kind, options)
        )

    def start(self, kind: Any, options: dict[str, Any], arguments: Any) -> Handle:
        name = options.get("name")
        if name in self.actors:
            if not options.get("get_if_exists"):
                raise ValueError(f"The name {name} is already taken")
            return Handle(self.actors[name])
        actor = FakeActor(self, kind, options, arguments)
        if name is not None:
            self.actors[name] = actor
        return Handle(actor)

    def have(self, name: str, made: object, **options: Any) -> FakeActor:
        """Have an actor that somebody has started."""
        handle = self.start(lambda: made, {"name": name, **options}, ((), {}))
        return handle.fake

    def forget(self, actor: FakeActor) -> None:
        self.actors = {name: each for name, each in self.actors.items() if each is not actor}

    def get_actor(self, name: str, namespace: str | None = None) -> Handle:
        self.require_there()
        if name not in self.actors:
            raise ValueError(f"Failed to look up actor with name '{name}'")
        return Handle(self.actors[name])

    def list_named_actors(self, all_namespaces: bool = False) -> list[dict[str, str]]:
        self.require_there()
        return [
            {"name": name, "namespace": actor.options.get("namespace", NAMESPACE)}
            for name, actor in self.actors.items()
        ]

    def kill(self, actor: Handle, *, no_restart: bool = True) -> None:
        self.require_there()
        if no_restart:
            actor.fake.die()
        else:
            actor.fake.restart()

    def get(self, reference: Reference, timeout: float | None = None) -> Any:
        try:
            return reference.answer.result(timeout)
        except TimeoutError as error:
            if reference.answer.done():
                raise
            raise GetTimeoutError("Get timed out: some object(s) not ready.") from error

    def cancel(self, reference: Reference, *, force: bool = False) -> None:
        self.cancelled.append((reference, force))

    def wait(self, references: Sequence[Reference], timeout: float | None = None) -> Any:
        for reference in references:
            if not reference.answer.done():
                self.sleep(timeout or 0.0)
        done = [each for each in references if each.answer.done()]
        return done, [each for each in references if each not in done]

    def actor_row(self, actor_id: str) -> dict[str, Any]:
        self.require_there()
        found = (each for each in self.actors.values() if f"{each.number:032x}" == actor_id)
        actor = next(found, None)
        # As Ray's proto does: a number of 0 is not there.
        return {} if actor is None or not actor.restarts else {"NumRestarts": actor.restarts}

    # Placement groups.

    def placement_group(self, bundles: list[dict[str, float]], **options: Any) -> Any:
        self.require_there()
        name = options.get("name", "")
        if any(row["name"] == name and row["state"] != "REMOVED" for row in self.groups.values()):
            raise ValueError(f"a placement group of the name {name} exists")
        identity = f"{next(self.numbers):036x}"
        self.groups[identity] = {
            **options,
            "name": name,
            "bundles": bundles,
            "state": "PENDING",
        }
        return types.SimpleNamespace(id=types.SimpleNamespace(hex=lambda: identity))

    def remove_placement_group(self, group: Any) -> None:
        self.require_there()
        self.groups[group.id.hex()]["state"] = "REMOVED"

    def placement_group_table(self) -> dict[str, dict[str, Any]]:
        self.require_there()
        return {identity: dict(row) for identity, row in self.groups.items()}

    def waiting_groups(self) -> list[str]:
        """Return the names of the groups that wait for room."""
        return [row["name"] for row in self.groups.values() if row["state"] == "PENDING"]

    def end_job(self) -> None:
        """Have the process end that has asked for groups."""
        for row in self.groups.values():
            if row.get("lifetime") != "detached":
                row["state"] = "REMOVED"

    # The cluster.

    def nodes(self) -> list[dict[str, Any]]:
        self.require_there()
        return self.there

    def available_resources_per_node(self) -> dict[str, dict[str, float]]:
        self.require_there()
        return self.free

    def get_draining_nodes(self) -> dict[str, int]:
        self.require_there()
        return dict.fromkeys(self.draining, 0)

    def get_node_id(self) -> str:
        return self.node_id

    def get_node_ip_address(self) -> str:
        return "127.0.0.1"

    def init(self, **arguments: Any) -> None:
        if self.is_away:
            raise ConnectionError("Could not find any running Ray instance.")
        self.joined.append(arguments)
        self.is_initialized = True

    def shutdown(self) -> None:
        self.is_initialized = False

    # The key-value store, as Ray's client of the GCS has it.

    def internal_kv_get(self, key: bytes, namespace: bytes) -> bytes | None:
        self.require_there()
        return self.rows.get(key)

    def internal_kv_put(self, key: bytes, value: bytes, overwrite: bool, namespace: bytes) -> int:
        self.require_there()
        is_new = key not in self.rows
        if is_new or overwrite:
            self.rows[key] = value
        return int(is_new)

    def internal_kv_del(self, key: bytes, del_by_prefix: bool, namespace: bytes) -> int:
        self.require_there()
        return int(self.rows.pop(key, None) is not None)

    def internal_kv_keys(self, prefix: bytes, namespace: bytes) -> list[bytes]:
        self.require_there()
        return [key for key in self.rows if key.startswith(prefix)]


def install(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Put the double in the place of Ray's own calls, for all modules, until the test ends."""
    fake = FakeRay()
    of_ray = ("get", "wait", "kill", "cancel", "get_actor", "remote", "nodes", "init", "shutdown")
    for name in of_ray:
        monkeypatch.setattr(ray, name, getattr(fake, name))
    monkeypatch.setattr(ray, "is_initialized", lambda: fake.is_initialized)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: fake)
    for name in (
        "placement_group",
        "remove_placement_group",
        "placement_group_table",
        "list_named_actors",
        "get_node_ip_address",
    ):
        monkeypatch.setattr(ray.util, name, getattr(fake, name))
    monkeypatch.setattr(state, "state", fake)
    monkeypatch.setattr(state, "actors", fake.actor_row)
    monkeypatch.setattr(state, "available_resources_per_node", fake.available_resources_per_node)
    monkeypatch.setattr(internal_kv, "global_gcs_client", fake)
    return fake
