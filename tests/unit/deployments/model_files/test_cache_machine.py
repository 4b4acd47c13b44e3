# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is done with a node's cache, in whatever order: what is held is whole, and it fits."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from backends.api.errors import ResourceExhaustedError, UnavailableError
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import FileChangedError, ModelFiles
from deployments.model_files.room import measure
from tests.support.examples import examples
from tests.support.file_sources import DirectorySource, content_of, listed, random_bytes, write

_MAX_BYTES = 5000
_MODELS = 4
# Files by number: models share the one of their own number with the next.
_SIZES = (0, 700, 1300, 2000, 900)


@dataclass(frozen=True)
class Hold:
    """A directory that one of the caches holds since a start of the machine."""

    directory: Path
    cache: int
    boot: int


class CacheMachine(RuleBasedStateMachine):
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.boot = 0
        self.uploads = [0] * _MODELS
        self.wanted: dict[Path, dict[str, bytes]] = {}
        self.holds: list[Hold] = []
        for model in range(_MODELS):
            self._upload(model)
        self.caches = [self._open(), self._open()]

    def teardown(self) -> None:
        for cache in self.caches:
            cache.close()
        shutil.rmtree(self.folder)

    def _open(self) -> NodeCache:
        return NodeCache(self.folder / "cache", _MAX_BYTES, boot_id=str(self.boot))

    def _upload(self, model: int) -> None:
        contents = {
            f"{number}/file": random_bytes(_SIZES[number], number + 10 * self.uploads[model])
            for number in (model, model + 1)
        }
        write(self.folder / str(model), contents)

    def _listed(self, model: int, *, with_sha256: bool = False) -> ModelFiles:
        return listed(self.folder / str(model), with_sha256=with_sha256)

    @rule(
        target=held,
        model=st.integers(0, _MODELS - 1),
        number=st.integers(0, 1),
        with_sha256=st.booleans(),
    )
    def ensure(self, model: int, number: int, with_sha256: bool) -> Hold | None:
        files = self._listed(model, with_sha256=with_sha256)
        cache = self.caches[number]
        try:
            directory = cache.ensure(files, DirectorySource(self.folder / str(model)))
        except ResourceExhaustedError:
            assert measure(cache.layout).kept_bytes + files.size_bytes > _MAX_BYTES
            return None
        self.wanted[directory] = content_of(self.folder / str(model))
        hold = Hold(directory, number, self.boot)
        self.holds.append(hold)
        return hold

    @rule(model=st.integers(0, _MODELS - 1), number=st.integers(0, 1))
    def ensure_fails(self, model: int, number: int) -> None:
        def fail(_path: str, _offset: int) -> None:
            raise UnavailableError("away")

        files = self._listed(model)
        cache = self.caches[number]
        source = DirectorySource(self.folder / str(model), fail)
        try:
            directory = cache.ensure(files, source)
        except (ResourceExhaustedError, UnavailableError):
            return
        assert content_of(directory) == content_of(self.folder / str(model))
        cache.release(directory)

    @rule(model=st.integers(0, _MODELS - 1), number=st.integers(0, 1))
    def upload_meanwhile(self, model: int, number: int) -> None:
        files = self._listed(model)
        former = content_of(self.folder / str(model))
        self.uploads[model] += 1
        self._upload(model)
        cache = self.caches[number]
        try:
            directory = cache.ensure(files, DirectorySource(self.folder / str(model)))
        except (FileChangedError, ResourceExhaustedError):
            return
        # All of it was there.
        assert content_of(directory) == former
        cache.release(directory)

    @rule(hold=consumes(held))
    def release(self, hold: Hold | None) -> None:
        # What was held before the machine's last start is not held any more.
        if hold is not None and hold in self.holds:
            self.caches[hold.cache].release(hold.directory)
            self.holds.remove(hold)

    @rule()
    def restart_the_machine(self) -> None:
        for cache in self.caches:
            cache.close()
        self.boot += 1
        self.holds = []
        self.caches = [self._open(), self._open()]

    @rule(model=st.integers(0, _MODELS - 1))
    def what_was_there_costs_nothing(self, model: int) -> None:
        files = self._listed(model)
        directory = self.caches[0].find(files)
        if directory is not None:
            self.caches[0].release(directory)
            source = DirectorySource(self.folder / str(model))
            self.caches[1].release(self.caches[1].ensure(files, source))
            assert source.reads == []

    @invariant()
    def what_is_held_is_whole(self) -> None:
        for hold in self.holds:
            assert content_of(hold.directory) == self.wanted[hold.directory]

    @invariant()
    def it_fits(self) -> None:
        assert measure(self.caches[0].layout).size_bytes <= _MAX_BYTES

    @invariant()
    def every_directory_is_whole(self) -> None:
        for tree in self.caches[0].layout.trees.iterdir():
            if tree in self.wanted:
                assert content_of(tree) == self.wanted[tree]


# Hundreds of steps that write through to the disk: minutes where others write, too.
TestCacheMachine = pytest.mark.timeout(600)(pytest.mark.slow(CacheMachine.TestCase))
TestCacheMachine.settings = settings(
    deadline=None, max_examples=examples(25), stateful_step_count=25
)
