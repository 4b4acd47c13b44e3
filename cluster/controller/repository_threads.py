# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Threads that look at repositories and read their models: each repository has some of its own.

A file system may answer nothing at all, as NFS does whose server is away, and a thread that asks it
cannot be ended. So what hangs keeps threads of its own repository only, and few of them: one for
each kind of look, and one for each model. A repository that does not answer is left out until it
does: its models are those of its last listing, and others are not looked for there.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from cluster.controller.repository_watch import RepositoryWatch
from cluster.repository.contents import RepositoryScan
from cluster.repository.repository import ModelRepository
from cluster.threads import ThreadPool

P = ParamSpec("P")
T = TypeVar("T")

# Of one repository: models read at a time.
_READS: Final = 8
# Kinds of looks: the listing of all models, and whether there is anything.
_LOOKS: Final = 2
# How long a directory has for its listing, and to say that it is there. Clients of stores give up
# by themselves.
LIST_WITHIN_S: Final = 30.0
ANSWER_WITHIN_S: Final = 5.0
# One that has answered just now is not probed.
_PROBED_S: Final = 2.0


@dataclass(slots=True, eq=False)
class _Threads:
    """The threads of one repository, and the looks at it that have not ended."""

    reads: ThreadPool = field(default_factory=lambda: ThreadPool("reads", _READS))
    looks: ThreadPool = field(default_factory=lambda: ThreadPool("looks", _LOOKS))
    under_way: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    answered_s: float = float("-inf")


class RepositoryThreads:
    """The threads of all repositories of a controller; used on its event loop.

    Args:
        repository: Looks and reads.
        watch: Is told of listings, and tells in which repository a model is.

    Attributes:
        repository: The same.
    """

    def __init__(self, repository: ModelRepository, watch: RepositoryWatch) -> None:
        self.repository = repository
        self._watch = watch
        self._of = {path: _Threads() for path in repository.paths}
        # For files that are in none, and models of which no listing has told yet.
        self._others = _Threads()
        self._reads: dict[str, asyncio.Future[Any]] = {}
        self._scan: RepositoryScan | None = None
        self._scan_s = 0.0

    async def scan(self, max_age_s: float = 0.0) -> RepositoryScan:
        """List the models of all repositories; see `ModelRepository.scan`.

        Args:
            max_age_s: How old the listing may be, where one is of a store.
        """
        clock_s, listings = asyncio.get_running_loop().time, self.repository.listings
        scan = self._scan
        if scan is None or clock_s() >= self._scan_s + max_age_s or not listings.stores:
            found = await self._look("listing", listings.look, self._of, LIST_WITHIN_S)
            scan = self._scan = listings.gathered(found)
            self._scan_s = clock_s()
            self._watch.saw(scan)
        return scan

    async def probe(self) -> None:
        """Probe the local directories, so that no model is looked for where none answers."""
        since_s = asyncio.get_running_loop().time() - _PROBED_S
        listings = self.repository.listings
        local = self._of.keys() - listings.stores
        due = [path for path in local if self._of[path].answered_s < since_s]
        await self._look("presence", listings.is_there, due, ANSWER_WITHIN_S)
        self.repository.silent = [path for path, threads in self._of.items() if threads.late]

    async def begin_read(
        self, key: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Begin to read a model; after the read of it that a cancelled load has left behind."""
        await self.probe()
        while (earlier := self._reads.get(key)) is not None:
            await asyncio.wait({earlier})
        reading = self._reads[key] = self.run(key, call, *args, **kwargs)
        reading.add_done_callback(lambda _: self._reads.pop(key, None))
        return reading

    def run(
        self, key: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Call what reads files of a model; empty where they are of no model, or of several."""
        paths = tuple(self._of)
        home = paths[0] if len(paths) == 1 else self._watch.home_of(key)
        threads = self._of.get(home, self._others)
        # One that is silent has nothing to say, and perhaps no thread that could hear it.
        chosen = self._others if threads.late else threads
        return chosen.reads.run(call, *args, **kwargs)

    async def _look(
        self, kind: str, call: Callable[[str], T], paths: Iterable[str], within_s: float
    ) -> dict[str, T]:
        """Ask repositories something, all at once; looks of a kind at the same time share one.

        What is silent is not asked again, and has no answer.
        """
        answers: dict[str, T] = {}
        stores = self.repository.listings.stores

        async def ask(path: str) -> None:
            threads = self._of[path]
            if threads.late:
                return
            asked = threads.under_way.get(kind) or self._begin(threads, kind, call, path)
            limit_s = None if path in stores else within_s
            if (await asyncio.wait({asked}, timeout=limit_s))[0]:
                answers[path] = asked.result()
            else:
                threads.late.add(kind)

        await asyncio.gather(*map(ask, tuple(paths)))
        return answers

    def _begin(
        self, threads: _Threads, kind: str, call: Callable[[str], T], path: str
    ) -> asyncio.Future[T]:
        def ended(_: asyncio.Future[T]) -> None:
            threads.under_way.pop(kind, None)
            threads.late.discard(kind)
            threads.answered_s = asyncio.get_running_loop().time()

        asked = threads.looks.run(call, path)
        threads.under_way[kind] = asked
        asked.add_done_callback(ended)
        return asked
