# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the modules that a request passes with mypyc: python scripts/compile.py.

The result lies in ``.compiled/<digest of the sources>``, where `backends.compiled_form` finds it;
what is there already is not made again. The C files and objects of the last time are kept and
reused as far as they did not change.
"""

import argparse
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["MANTA_COMPILED"] = "0"

from backends import compiled_form  # noqa: E402

_BUILD: Final = "build"


def main() -> int:
    """Compile what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/compile.py", description=__doc__)
    parser.add_argument("--optimization", default="2", help="the C compiler's -O (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="C compilers at once")
    parser.add_argument("--if-possible", action="store_true", help="without a compiler: say so, 0")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    compiler = shlex.split(os.environ.get("CC", "") or sysconfig.get_config_var("CC"))
    if shutil.which(compiler[0]) is None:
        print(f"no C compiler '{compiler[0]}': Manta runs plain, slower")
        return 0 if arguments.if_possible else 1
    wanted = compiled_form.folder()
    wanted.parent.mkdir(exist_ok=True)
    with (wanted.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if wanted.is_dir():
            print("compiled already")
            return 0
        begin_s = time.monotonic()
        Build(wanted, compiler, arguments.optimization, arguments.jobs).run()
        print(f"compiled in {time.monotonic() - begin_s:.0f} s: {wanted.relative_to(ROOT)}")
    return 0


@dataclass(frozen=True)
class Build:
    """One run.

    Attributes:
        wanted: The folder that shall have the result.
        compiler: The C compiler's command.
        optimization: Its -O.
        jobs: How many of them run at once.
    """

    wanted: Path
    compiler: list[str]
    optimization: str
    jobs: int

    def run(self) -> None:
        """Make the folder, whole or not at all; folders of older sources go.

        Raises:
            SystemExit: mypyc refuses a source; it has said why.
            subprocess.CalledProcessError: The C compiler fails; it has said why.
        """
        build = self.wanted.parent / _BUILD
        extensions = _generate(build, self.optimization)
        made = self.wanted.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        with ThreadPoolExecutor(self.jobs) as pool:
            self._compile(pool, build, extensions)
            list(pool.map(lambda each: self._link(build, made, each), extensions))
        for old in self.wanted.parent.iterdir():
            if old.is_dir() and old not in {build, made}:
                shutil.rmtree(old)
        made.rename(self.wanted)

    def _compile(self, pool: ThreadPoolExecutor, build: Path, extensions: list[Any]) -> None:
        headers_s = max((path.stat().st_mtime for path in build.rglob("*.h")), default=0.0)
        jobs = {source: extension for extension in extensions for source in extension.sources}
        stale = [
            (source, extension)
            for source, extension in jobs.items()
            if not (file := _object(build, source)).exists()
            or file.stat().st_mtime < max(Path(source).stat().st_mtime, headers_s)
        ]
        largest_first = sorted(stale, key=lambda each: -Path(each[0]).stat().st_size)
        list(pool.map(lambda each: self._compile_one(build, *each), largest_first))

    def _compile_one(self, build: Path, source: str, extension: Any) -> None:
        target = _object(build, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        folders = [*extension.include_dirs, sysconfig.get_paths()["include"]]
        _call(
            [
                *self.compiler,
                "-fPIC",
                "-DNDEBUG",
                "-w",
                *extension.extra_compile_args,
                "-Wno-error",
            ],
            [*(f"-I{each}" for each in folders), "-c", source, "-o", str(target)],
        )

    def _link(self, build: Path, made: Path, extension: Any) -> None:
        target = made / (extension.name.replace(".", "/") + compiled_form.SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = [str(_object(build, source)) for source in extension.sources]
        _call([*self.compiler, "-shared", "-s", *objects, "-o", str(target)])


def _generate(build: Path, optimization: str) -> list[Any]:
    """Have mypyc write C; return what to make of it."""
    import setuptools  # noqa: F401, PLC0415 - mypyc looks whether it is there
    from mypyc.build import mypycify  # noqa: PLC0415

    extensions: list[Any] = mypycify(
        compiled_form.sources(),
        multi_file=True,
        target_dir=str(build),
        opt_level=optimization,
        debug_level="0",
    )
    return extensions


def _object(build: Path, source: str) -> Path:
    path = Path(source)
    inside = path.relative_to(build) if path.is_relative_to(build) else Path(path.name)
    return build / "objects" / inside.with_suffix(".o")


def _call(*parts: Iterable[str]) -> None:
    subprocess.run([each for part in parts for each in part], check=True)


if __name__ == "__main__":
    sys.exit(main())
