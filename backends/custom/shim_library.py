# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The shim: a C++ library by the name of Triton's own, with the functions backend libraries want.

A wheel that was built where a C++ compiler is has it beside its sources. Otherwise it is compiled
when a model first needs it, into ``.compiled_shim/<digest>`` beside the packages, or where these
cannot be written into the user's cache; the digest is of the sources, the flags and the machine.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from backends.api.errors import InternalError, UnavailableError
from backends.compiled_form import ROOT

# Backend libraries are linked against a library of this name: the loader finds the one that was
# loaded before by it.
NAME: Final = "libtritonserver.so"
SOURCES: Final = Path(__file__).parent / "shim"
FOLDER: Final = ".compiled_shim"
_COMPILERS: Final = ("c++", "g++", "clang++")
_FLAGS: Final = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread"),
    f"-Wl,-soname,{NAME}",
)
_LOCK: Final = "lock"


def path() -> Path:
    """Return the shim's path; compiles it where that was not done.

    Raises:
        UnavailableError: There is no C++ compiler, or no place to keep the result.
        InternalError: The compiler fails.
    """
    beside = SOURCES / NAME
    if beside.is_file():
        return beside
    folders = [place / digest() for place in _places()]
    found = next((each / NAME for each in folders if (each / NAME).is_file()), None)
    return found or _compiled_into_one_of(folders)


def digest() -> str:
    """Return what names the shim of these sources on this machine."""
    seen = hashlib.blake2b(" ".join((platform.machine(), *_FLAGS)).encode(), digest_size=10)
    for source in sorted(SOURCES.glob("*.[ch]*")):
        seen.update(source.name.encode())
        seen.update(source.read_bytes())
    return seen.hexdigest()


def compiler() -> str | None:
    """Return the path of a C++ compiler; None without one."""
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


def compile_into(folder: Path) -> Path:
    """Compile the shim, unless that is done, and return its path.

    Raises:
        UnavailableError: There is no C++ compiler.
        InternalError: It fails.
        OSError: The folder cannot be written.
    """
    command = compiler()
    if command is None:
        raise UnavailableError(
            f"a backend library needs Manta's own {NAME}, which is compiled at first use, and "
            f"there is no C++ compiler here ({', '.join(_COMPILERS)}): install one, or a wheel of "
            "Manta that was built where one is"
        )
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / NAME
    with (folder / _LOCK).open("w") as lock:
        # Instances of a model start at once: one of them compiles.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_file():
            _compile(command, made)
    return made


def _places() -> tuple[Path, ...]:
    return ROOT / FOLDER, Path.home() / ".cache" / "manta" / FOLDER.lstrip(".")


def _compiled_into_one_of(folders: list[Path]) -> Path:
    refusal = OSError()
    for folder in folders:
        try:
            return compile_into(folder)
        except OSError as error:
            refusal = error
    raise UnavailableError(
        f"a backend library needs Manta's own {NAME}, and there is no place to keep it once "
        f"compiled: {refusal}; make one of these writable: {', '.join(map(str, folders))}"
    ) from refusal


def _compile(command: str, made: Path) -> None:
    # One file that includes all, as most of the time goes into C++'s own headers.
    sources = sorted(each.name for each in SOURCES.glob("*.cc"))
    text = "".join(f'#include "{each}"\n' for each in sources)
    handle, name = tempfile.mkstemp(suffix=".so", dir=made.parent)
    os.close(handle)
    done = subprocess.run(  # noqa: S603 - a compiler of this machine, and files of ours
        [command, *_FLAGS, f"-I{SOURCES}", "-x", "c++", "-", "-o", name],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        Path(name).unlink()
        raise InternalError(
            f"Manta's {NAME} cannot be compiled with '{command}': {done.stderr.strip()[-2000:]}"
        )
    # mkstemp's files are their owner's only.
    Path(name).chmod(0o755)
    Path(name).rename(made)
