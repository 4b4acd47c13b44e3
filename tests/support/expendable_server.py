# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose processes tests kill, shared by them: after each it must be whole again.

Where it does not become so, another one is started, which counts as a start like every other.
"""

import contextlib
import http.client
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.server import RunningServer
from tests.support.shared_server import brought

log = logging.getLogger(__name__)

# Two tests of stopped instances wait for that long. A busy machine may keep an instance that is
# well from its turn for four seconds, and others count on it that it is not replaced.
HEARTBEAT_TIMEOUT_S = 8
INGRESSES = 2
_FLAGS = (
    "--model-control-mode=explicit",
    "--load-model=add_sub",
    f"--ingress-per-node={INGRESSES}",
    f"--instance-heartbeat-timeout-secs={HEARTBEAT_TIMEOUT_S}",
    "--exit-timeout-secs=2",
)
_PATIENCE_S = 90.0
_PAUSE_S = 0.2
_INGRESS = "ray::ServeReplica:manta:Ingress"
# The name of an instance's model in the title of its process.
_INSTANCE = re.compile(r"(?:ray::|manta: )([^/ ]+)/\d+")
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class _State:
    """What serves.

    Attributes:
        ready: Name, version and reason of the index's rows that are ready.
        instances: How many processes the models have.
        ingress_count: How many ingresses there are.
    """

    ready: frozenset[tuple[str, str, str]]
    instances: Counter[str]
    ingress_count: int

    @property
    def is_whole(self) -> bool:
        """Whether all ingresses are there and no process is left of a model that was unloaded."""
        models = {name for name, _, _ in self.ready}
        return self.ingress_count == INGRESSES and self.instances.keys() == models


class ExpendableServer:
    """A server with two instances of `add_sub` behind two ingresses.

    Args:
        repository: Its folder of models, which has `add_sub` and may have more.
    """

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._brought = contextlib.ExitStack()
        self._models: tuple[Path, Collection[str] | None] | None = None
        self._start()

    @property
    def running(self) -> RunningServer:
        """The server; another one if a test has ended it."""
        if self._running.process.poll() is not None:
            self._start()
        return self._running

    @contextlib.contextmanager
    def bringing(self, models: Path, load: Collection[str] | None = None) -> Iterator[None]:
        """Serve a module's models while the block runs; see `brought`."""
        server = self.running
        self._models = (models, load)
        self._bring(server)
        try:
            yield
        finally:
            self._models = None
            if self._running.process.poll() is None:
                self._brought.close()
                self._whole = self._lasting()

    def settle(self) -> None:
        """Wait until all that served before serves again, or start another server.

        Of a server that was ended nothing is waited for.
        """
        if self._running.process.poll() is not None:
            return
        ends_s = time.monotonic() + _PATIENCE_S
        while (state := self._seen()) != self._whole:
            if time.monotonic() > ends_s:
                log.warning("not whole again: %s, before: %s", state, self._whole)
                self._running.terminate()
                self._start()
                return
            time.sleep(_PAUSE_S)

    def left_in_shared_memory(self) -> set[Path]:
        """Return what has come to shared memory since the server's start and nobody uses.

        Waits until nothing is left, for a while: what another server has just made it uses soon.
        """
        ends_s = time.monotonic() + _PATIENCE_S
        while True:
            users = psutil.process_iter()
            used = {path for process in users for path in _shared_memory_of(process)}
            left = set(_SHARED_MEMORY.iterdir()) - self._shared_memory_before - used
            if not left or time.monotonic() > ends_s:
                return left
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """End the server, if no test has."""
        if self._running.process.poll() is None:
            assert self._running.terminate() == 0

    def _start(self) -> None:
        # Nothing is left to unload of a server that has ended.
        with contextlib.suppress(OSError):
            self._brought.close()
        self._shared_memory_before = set(_SHARED_MEMORY.iterdir())
        self._running = RunningServer(self._repository, *_FLAGS)
        self._bring(self._running)

    def _bring(self, server: RunningServer) -> None:
        if self._models is not None:
            models, load = self._models
            for link in self._repository.iterdir():
                if link.is_symlink():  # of the server before
                    link.unlink()
            self._brought.enter_context(brought(server, models, load))
        self._whole = self._lasting()

    def _lasting(self) -> _State:
        """Return what serves once it is the same twice: Ray writes titles anew all the time."""
        ends_s = time.monotonic() + _PATIENCE_S
        before, state = None, self._seen()
        while state is None or state != before or not state.is_whole:
            assert time.monotonic() < ends_s, f"no state lasts: {before}, {state}"
            time.sleep(_PAUSE_S)
            before, state = state, self._seen()
        return state

    def _seen(self) -> _State | None:
        """Return what serves; None while nobody can say so."""
        try:
            return self._state()
        except (OSError, http.client.HTTPException):
            return None

    def _state(self) -> _State:
        with self._running.post("/v2/repository/index", {}, _PATIENCE_S) as answer:
            rows = json.loads(answer.read())
        titles = [" ".join(each) for each in _commands(self._running)]
        found = (_INSTANCE.match(title) for title in titles)
        return _State(
            frozenset(
                (row["name"], row["version"], row.get("reason", ""))
                for row in rows
                if row.get("state") == "READY"
            ),
            Counter(each[1] for each in found if each is not None),
            sum(title.startswith(_INGRESS) for title in titles),
        )


def _commands(server: RunningServer) -> Iterator[list[str]]:
    for process in server.tree():
        with contextlib.suppress(psutil.Error):
            yield process.cmdline()


def _shared_memory_of(process: psutil.Process) -> Iterator[Path]:
    """Yield the objects that a process has mapped or opened."""
    with contextlib.suppress(psutil.Error, OSError):
        paths = [each.path for each in process.memory_maps()]
        paths += [each.path for each in process.open_files()]
        yield from (Path(path) for path in paths if path.startswith(f"{_SHARED_MEMORY}/"))
