# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Kills processes that use a node's cache before each thing they do to the disk; for tests.

``python -m tests.support.crashing_cache FOLDER STRIDE`` kills one process after the other, each
STRIDE steps later than the last, until one comes through; after each it checks what is left. It
prints how many steps the last has made.
"""

import hashlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from deployments.model_files.cache import NodeCache
from tests.support.file_sources import DirectorySource, content_of, listed, random_bytes, write

_STEPS = frozenset(
    {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime"}
)
# The new model fits once the old one is evicted.
_MAX_BYTES = 9_000
_OLD = {"1/a": random_bytes(5000), "1/b": b"shared"}
_NEW = {"1/c": random_bytes(6000, 2), "1/b": b"shared", "config.pbtxt": b"name: 'm'"}


def in_child(work: Callable[[], None]) -> int:
    """Return the status of a forked process that has done some work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def kill_at(step: int) -> None:
    """Have this process killed when it has done so many steps."""
    left = [step]

    def count(event: str, _arguments: object) -> None:
        if event in _STEPS:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def load(root: Path, model: Path) -> None:
    with NodeCache(root, _MAX_BYTES) as cache:
        assert content_of(cache.ensure(listed(model), DirectorySource(model))) == content_of(model)


def check(root: Path, models: dict[str, Path]) -> None:
    """Check that nothing partial is visible, and that everything works and cleans up."""
    for blob in (root / "blobs").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    for tree in (root / "trees").iterdir():
        assert content_of(tree) == content_of(models[tree.name])
    load(root, models[listed(root.parent / "new").key()])
    load(root, models[listed(root.parent / "old").key()])
    for name in ("trash", "making"):
        assert not list((root / name).iterdir()), name
    partials = [path.name for path in (root / "partial").iterdir() if path.suffix != ".parts"]
    assert not partials, partials
    names = {path.name for path in (root / "blobs").iterdir()}
    assert {path.read_text() for path in (root / "index").iterdir() if not path.suffix} <= names


def main(folder: Path, stride: int) -> None:
    models = {}
    for name, files in (("old", _OLD), ("new", _NEW)):
        write(folder / name, files)
        models[listed(folder / name).key()] = folder / name
    root, step = folder / "cache", 1 - stride
    status: int = signal.SIGKILL

    def check_and_crash() -> None:
        if step > 1:
            check(root, models)
        shutil.rmtree(root, ignore_errors=True)
        load(root, folder / "old")
        kill_at(step)
        load(root, folder / "new")

    while status == signal.SIGKILL:
        step += stride
        status = in_child(check_and_crash)
    assert status == 0, f"after a kill at step {step - stride}"
    sys.stdout.write(f"{step}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
