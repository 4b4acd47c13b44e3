# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Brings all files of a model into a directory: from the cache where they are, else by download."""

import functools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from deployments.model_files import trees
from deployments.model_files.ages import note_file_use, note_never_used
from deployments.model_files.blobs import Blobs, content_key, sha256_of
from deployments.model_files.contracts import FileSource, ModelFile, ModelFiles, OpenSource
from deployments.model_files.counters import CacheCounters, Progress
from deployments.model_files.download import Downloads
from deployments.model_files.layout import Layout
from deployments.model_files.locks import (
    StoppedError,
    is_locked,
    locked,
    locked_while_working,
)
from deployments.model_files.partial import Allocate, Partial
from deployments.model_files.room import FULL, WANTED, Room

# Files of one model under way at the same time: as many as parts, for models of small files.
_FILES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Means:
    """What one process brings files with.

    Attributes:
        layout: Of the cache.
        room: Its bytes.
        downloads: Of this process.
        counters: Where all of it counts.
        allocate: Takes room on the disk.
        is_prefetch: Whether nobody needs the files yet.
    """

    layout: Layout
    room: Room
    downloads: Downloads
    counters: CacheCounters
    allocate: Allocate
    is_prefetch: bool = False


@dataclass(frozen=True, slots=True)
class Filling:
    """One directory that is filled. Its tree's lock is held by the caller.

    Attributes:
        means: Of this process.
        files: What shall be in it.
        directory: In ``layout.making``; there.
        progress: Told of each byte.
        stop: Ends it early.
    """

    means: Means
    files: ModelFiles
    directory: Path
    progress: Progress
    stop: Event = field(default_factory=Event)
    _errors: list[BaseException] = field(default_factory=list)

    def run(self, open_source: OpenSource) -> None:
        """Fill it.

        Raises:
            FileChangedError: The source has other files by now.
            UnavailableError: They cannot be read, or are not those that were told.
            ResourceExhaustedError: There is no room.
            NoFreeRoomError: There is no room for a prefetch.
            StoppedError: A prefetch was stopped.
            OSError: They cannot be written.
        """
        lacking: list[ModelFile] = []
        try:
            with locked(self._layout.lock):
                lacking += [file for file in self.files.files if not self._link(file)]
                self._reserve(lacking)
            self.means.counters.count(hits=len(self.files.files) - len(lacking))
            if lacking:
                self._bring_all(open_source(self.files.location), lacking)
        except BaseException:
            self._give_back(lacking)
            raise
        finally:
            self._wanted.unlink(missing_ok=True)

    @property
    def _layout(self) -> Layout:
        return self.means.layout

    @property
    def _blobs(self) -> Blobs:
        return Blobs(self.means.layout)

    @property
    def _wanted(self) -> Path:
        return self.directory.with_name(self.directory.name + WANTED)

    def _partial(self, file: ModelFile) -> Partial:
        key = content_key(self.files.location, file)
        return Partial(self._layout.partial / key, file.size_bytes)

    def _partials(self, files: Iterable[ModelFile]) -> list[Partial]:
        """Return the downloads of files, once where several have one content."""
        return list({partial.path: partial for partial in map(self._partial, files)}.values())

    def _link(self, file: ModelFile) -> bool:
        """Link a file whose content is there; the node's lock is held."""
        blob = self._blobs.find(self.files.location, file)
        if blob is None:
            return False
        self._link_blob(blob, file)
        self.progress.add(file.size_bytes)
        return True

    def _link_blob(self, blob: Path, file: ModelFile) -> None:
        trees.link(blob, self.directory, file)
        if not self.means.is_prefetch:
            note_file_use(blob)

    def _reserve(self, lacking: Iterable[ModelFile]) -> None:
        """Take the room for all downloads at once: a model has thousands of files."""
        location = self.files.location
        wanted = self._partials(
            file for file in lacking if self._blobs.find_unchecked(location, file) is None
        )
        self._wanted.write_text("\n".join(partial.path.name for partial in wanted))
        self._allocate(
            [
                partial
                for partial in wanted
                if not partial.is_allocated
                and not is_locked(self._layout.blob_lock(partial.path.name))
            ]
        )

    def _allocate(self, partials: list[Partial]) -> None:
        what = f"the files of '{self.files.location}'"
        left_bytes = sum(partial.size_bytes for partial in partials)
        for partial in partials:
            # What a process has left that was killed right here.
            partial.discard()
        if partials:
            self.means.room.make(left_bytes, what)
        for partial in partials:
            allocate = functools.partial(partial.allocate, self.means.allocate)
            self.means.room.on_disk(left_bytes, what, allocate)
            left_bytes -= partial.size_bytes

    def _give_back(self, lacking: Iterable[ModelFile]) -> None:
        """Remove downloads of which nothing was read; others are gone on with next time."""
        with locked(self._layout.lock):
            for partial in self._partials(lacking):
                is_used = is_locked(self._layout.blob_lock(partial.path.name))
                if is_used:
                    continue
                if not partial.is_allocated or not any(partial.written()):
                    partial.discard()
                elif self.means.is_prefetch:
                    note_never_used(partial.path)

    def _bring_all(self, source: FileSource, lacking: list[ModelFile]) -> None:
        with ThreadPoolExecutor(min(_FILES_AT_ONCE, len(lacking)), "manta-model-file") as pool:
            try:
                list(pool.map(functools.partial(self._bring, source), lacking))
            except BaseException:
                # An interrupt: errors of files are kept by their threads.
                self.stop.set()
                raise
        if self._errors:
            raise self._errors[0]
        if self.stop.is_set():
            raise StoppedError

    def _bring(self, source: FileSource, file: ModelFile) -> None:
        if self.stop.is_set():
            return
        key = content_key(self.files.location, file)
        try:
            with locked_while_working(self._layout.blob_lock(key), self.stop):
                if not self._link_from_others(file) and not self._recheck(file):
                    self.means.counters.count(misses=1)
                    self._download(source, file)
        except BaseException as error:
            # The first is the cause; what the others meet is that it has stopped them.
            self._errors.append(error)
            self.stop.set()

    def _link_from_others(self, file: ModelFile) -> bool:
        with locked(self._layout.lock):
            is_there = self._link(file)
        self.means.counters.count(hits=int(is_there))
        return is_there

    def _recheck(self, file: ModelFile) -> bool:
        """Link a file that an earlier start of the machine has left, if it is still right."""
        path = self._blobs.find_unchecked(self.files.location, file)
        if path is None:
            return False
        try:
            is_right = sha256_of(path) == path.name
        except FileNotFoundError:
            return False
        with locked(self._layout.lock):
            if not path.exists():
                return False
            if not is_right:
                path.unlink()
                return False
            self._blobs.add(path, path.name, self.files.location, file)
        return self._link_from_others(file)

    def _download(self, source: FileSource, file: ModelFile) -> None:
        partial = self._partial(file)
        sha256 = self._fetch(source, file, partial)
        with locked(self._layout.lock):
            if self.means.is_prefetch:
                note_never_used(partial.path)
            blob = self._blobs.add(partial.path, sha256, self.files.location, file)
            partial.drop_record()
            self._link_blob(blob, file)

    def _fetch(self, source: FileSource, file: ModelFile, partial: Partial) -> str:
        while True:
            if not partial.is_allocated:
                with locked(self._layout.lock):
                    self._allocate([partial])
            is_written = partial.written()
            there_bytes = sum(
                partial.span(part)[1] for part, is_in in enumerate(is_written) if is_in
            )
            self.progress.add(there_bytes)
            try:
                return self.means.downloads.fetch(source, file, partial, self._count, self.stop)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                with locked(self._layout.lock):
                    self.means.room.after_full_disk(file.size_bytes, f"'{file.path}'", error)

    def _count(self, count_bytes: int) -> None:
        self.means.counters.count(downloaded_bytes=count_bytes)
        self.progress.add(count_bytes)
