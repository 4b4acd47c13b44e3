# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `scripts/compile.py` and the building of a wheel do: the sources through mypyc and C.

What the last time has left in ``.compiled/build`` is used again: mypy's cache, C files that come
out the same, and objects whose sources, headers and command are the same.
"""

import contextlib
import fcntl
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends import compiled_form
from scripts.compiled_cache import CompiledCache

_BUILD: Final = "build"
_LOCK: Final = "lock"
_OPTIMIZATION: Final = "optimization"
_CACHE: Final = "mypy_cache"
# mypyc writes into it what it compiles.
_INTERMEDIATE: Final = "ops.txt"
# An editor saves several files.
_TRIES: Final = 5
# Types of what is not installed are Any then; `make types` is who checks the sources.
_LENIENT: Final = (
    "--ignore-missing-imports",
    "--allow-subclassing-any",
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
)


def no_compiler() -> str:
    """Return why there is no compiling C for Python here; empty if there is."""
    compiler = _compiler()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler '{compiler}'"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "no headers of Python (a package like python3-dev has them)"
    return ""


def impediment() -> str:
    """Return why nothing can be compiled here; empty if it can."""
    if importlib.util.find_spec("mypyc") is None or importlib.util.find_spec("setuptools") is None:
        return no_compiler() or "no mypy and setuptools (pip install 'manta-serve[compile]')"
    return no_compiler()


def is_running() -> bool:
    """Whether another process is compiling."""
    try:
        with _locked(waits=False):
            return False
    except BlockingIOError:
        return True


def make(
    optimization: str = "2",
    jobs: int | None = None,
    *,
    waits: bool = True,
    cache: CompiledCache | None = None,
) -> str:
    """Compile the sources, unless that is done, here or elsewhere; return what was done, in a line.

    To be called in the tree's root, where mypy finds its settings.

    Args:
        optimization: The C compiler's -O.
        jobs: How many of them run at once.
        waits: Whether to wait for another process that compiles.
        cache: Where other checkouts' compiled forms are kept; None for the user's.

    Raises:
        BlockingIOError: Another process compiles.
        SystemExit: mypyc refuses a source, and has said why; or sources change all the time.
        subprocess.CalledProcessError: The C compiler fails; it has said why.
    """
    with _locked(waits=waits):
        wanted = compiled_form.folder()
        if wanted.is_dir():
            return "compiled already"
        cache = cache or CompiledCache()
        if cache.take(wanted, optimization) and _is_loadable(wanted):
            _remove_old(wanted)
            return f"compiled before, in another checkout: {wanted.relative_to(compiled_form.ROOT)}"
        begin_s = time.monotonic()
        made = Build(_compiler(), optimization, jobs or os.cpu_count() or 1).run()
        took_s = time.monotonic() - begin_s
        cache.keep(made, optimization)
        return f"compiled in {took_s:.0f} s: {made.relative_to(compiled_form.ROOT)}"


def optimization_of(made: Path) -> str:
    """Return the -O that a folder was compiled with; empty if nobody knows."""
    note = made / _OPTIMIZATION
    return note.read_text() if note.exists() else ""


@dataclass(frozen=True)
class Build:
    """One run.

    Attributes:
        compiler: The C compiler's command.
        optimization: Its -O.
        jobs: How many of them run at once.
    """

    compiler: list[str]
    optimization: str
    jobs: int

    def run(self) -> Path:
        """Make the folder, whole or not at all, and return it."""
        build = compiled_form.ROOT / compiled_form.FOLDER / _BUILD
        build.mkdir(parents=True, exist_ok=True)
        wanted, extensions = self._generate(build)
        made = wanted.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        with ThreadPoolExecutor(self.jobs) as pool:
            sources = {source: each for each in extensions for source in each.sources}
            largest_first = sorted(sources, key=lambda each: -Path(each).stat().st_size)
            list(pool.map(lambda each: self._compile(build, each, sources[each]), largest_first))
            linked = list(pool.map(lambda each: self._link(build, each), extensions))
        for file in linked:
            target = made / file.relative_to(build / "linked")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        _require_loadable(made / (compiled_form.LIBRARY + compiled_form.SUFFIX))
        (made / _OPTIMIZATION).write_text(self.optimization)
        made.rename(wanted)
        _remove_old(wanted)
        return wanted

    def _generate(self, build: Path) -> tuple[Path, list[Any]]:
        """Have mypyc write C; return the folder that it is for, and what to make of it."""
        for _ in range(_TRIES):
            wanted = compiled_form.folder()
            extensions = self._mypycify(build)
            if not (build / _INTERMEDIATE).stat().st_size:
                # mypyc found nothing to do, and so does not say which files of its own the modules
                # need. What it writes the second time is what is there, so that objects are kept.
                shutil.rmtree(build / _CACHE)
                extensions = self._mypycify(build)
            # A source that was saved meanwhile would be compiled under the digest it had before.
            if compiled_form.folder() == wanted:
                return wanted, extensions
        raise SystemExit("the sources change while they are compiled; try again when they do not")

    def _mypycify(self, build: Path) -> list[Any]:
        import setuptools  # noqa: F401, PLC0415 - mypyc looks whether it is there
        from mypyc.build import mypycify  # noqa: PLC0415

        sources = compiled_form.sources()
        extensions: list[Any] = mypycify(
            [*_LENIENT, f"--cache-dir={build / _CACHE}", *sources],
            multi_file=True,
            # One group that is "separate" is compiled as if it were not, but lets mypy use its
            # cache for whatever else it reads.
            separate=[(sources, compiled_form.GROUP)],
            target_dir=str(build),
            opt_level=self.optimization,
            debug_level="0",
        )
        return extensions

    def _compile(self, build: Path, source: str, extension: Any) -> None:
        target = _object(build, source)
        folders = [*extension.include_dirs, sysconfig.get_paths()["include"]]
        command = [
            *(*self.compiler, "-fPIC", "-DNDEBUG", "-w", *extension.extra_compile_args),
            *("-Wno-error", *(f"-I{each}" for each in folders), "-c", source),
            *("-MMD", "-MF", str(target.with_suffix(".d")), "-o", str(target)),
        ]
        _call(command, target, lambda: _dependencies(target.with_suffix(".d")))

    def _link(self, build: Path, extension: Any) -> Path:
        name = extension.name.replace(".", "/") + compiled_form.SUFFIX
        target: Path = build / "linked" / name
        objects = [str(_object(build, source)) for source in extension.sources]
        _call(
            [*self.compiler, "-shared", "-s", *objects, "-o", str(target)], target, lambda: objects
        )
        return target


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "") or sysconfig.get_config_var("CC") or "cc")


@contextlib.contextmanager
def _locked(*, waits: bool) -> Iterator[None]:
    place = compiled_form.ROOT / compiled_form.FOLDER
    place.mkdir(exist_ok=True)
    with (place / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _object(build: Path, source: str) -> Path:
    path = Path(source)
    inside = path.relative_to(build) if path.is_relative_to(build) else Path(path.name)
    return build / "objects" / inside.with_suffix(".o")


def _dependencies(file: Path) -> list[str]:
    """Return the files that a rule for make, as C compilers write it, names."""
    _, _, names = file.read_text().replace("\\\n", " ").partition(": ")
    return shlex.split(names)


def _call(command: list[str], target: Path, inputs: Callable[[], list[str]]) -> None:
    """Run a command, unless it is the one that has made its target and no input is newer."""
    note = target.with_name(target.name + ".command")
    text = shlex.join(command)
    if _is_fresh(target, note, text, inputs):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # A command that is killed leaves nothing that looks finished.
    note.unlink(missing_ok=True)
    subprocess.run(command, check=True)
    note.write_text(text)


def _is_fresh(target: Path, note: Path, text: str, inputs: Callable[[], list[str]]) -> bool:
    try:
        made_ns = target.stat().st_mtime_ns
        return note.read_text() == text and all(
            Path(each).stat().st_mtime_ns <= made_ns for each in inputs()
        )
    except FileNotFoundError:
        return False


def _require_loadable(library: Path) -> None:
    """Make sure that nothing is missing in the library that has the code of all modules.

    Raises:
        SystemExit: Something is; servers would not start.
    """
    # In a process of its own, as what was loaded stays.
    load = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", load, str(library)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"what was compiled cannot be loaded: {done.stderr.strip().rpartition(chr(10))[2]}; "
            f"remove {compiled_form.FOLDER}/{_BUILD} and try again"
        )


def _is_loadable(taken: Path) -> bool:
    """Whether a form that was compiled elsewhere loads here; else it is removed."""
    try:
        _require_loadable(taken / (compiled_form.LIBRARY + compiled_form.SUFFIX))
    except SystemExit:
        shutil.rmtree(taken)
        return False
    return True


def _remove_old(wanted: Path) -> None:
    """Remove what older sources have left, but for the last of it and what processes run from."""
    place = wanted.parent
    for mark in place.glob("*.failed"):
        mark.unlink()
    for unfinished in place.glob("*.new"):
        shutil.rmtree(unfinished)
    others = [each for each in place.iterdir() if each.is_dir() and each.name != _BUILD]
    others.remove(wanted)
    others.sort(key=lambda each: each.stat().st_mtime_ns)
    for old in others[:-1]:
        _remove_unless_used(old)


def _remove_unless_used(old: Path) -> None:
    """Remove a folder that no process holds; see `compiled_form`."""
    file = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(old)
    except OSError:
        # Held, or on a file system that cannot say so.
        pass
    finally:
        os.close(file)
