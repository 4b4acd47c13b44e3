# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client as a file that the raylet can start by one word: compiled, or else a Python script.

A wheel that was built where a C compiler is has it beside its source. `make install` compiles it
into ``.compiled_client/<digest>`` beside the packages; the digest is of the source and the machine.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from backends.compiled_form import ROOT

NAME: Final = "python-client"
FOLDER: Final = ".compiled_client"
_HERE: Final = Path(__file__).parent
_SOURCE: Final = _HERE / "client.c"
_SCRIPT: Final = _HERE / "client.py"
_COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-s")
# Linux reads no more of a script's first line; Python adds "-IS" and the marks.
_LONGEST_INTERPRETER: Final = 120


def made(folder: Path) -> Path:
    """Return the compiled client, or a script in a folder that does the same.

    Raises:
        OSError: There is neither.
    """
    for each in (_HERE / NAME, compiled_place()):
        if each.is_file():
            return each
    if len(sys.executable) > _LONGEST_INTERPRETER:
        raise OSError(f"the path of Python is too long for a script: {sys.executable}")
    script = folder / NAME
    # One that is there may be running.
    if not script.is_file():
        script.write_text(f"#!{sys.executable} -IS\n{_SCRIPT.read_text()}")
        script.chmod(0o700)
    return script


def compiled_place() -> Path:
    """Return where the compiled client of this source is, or would be."""
    seen = hashlib.blake2b(" ".join((platform.machine(), *_FLAGS)).encode(), digest_size=10)
    seen.update(_SOURCE.read_bytes())
    return ROOT / FOLDER / seen.hexdigest() / NAME


def compiled(place: Path) -> str:
    """Compile the client to a file, unless it is there; return what was done, in a line."""
    if place.is_file():
        return f"{place}: compiled already"
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        return f"no C compiler ({', '.join(_COMPILERS)}): processes are forked by way of a script"
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent)
    os.close(handle)
    done = subprocess.run(  # noqa: S603 - a compiler of this machine, and a file of ours
        [compiler, *_FLAGS, str(_SOURCE), "-o", name], capture_output=True, text=True, check=False
    )
    if done.returncode:
        Path(name).unlink()
        return f"{_SOURCE} cannot be compiled: {done.stderr.strip()[-2000:]}"
    Path(name).chmod(0o755)
    Path(name).rename(place)
    return str(place)
