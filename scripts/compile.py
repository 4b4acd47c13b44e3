# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles the modules that a request passes with mypyc: python scripts/compile.py.

The result lies in ``.compiled/<digest of the sources>``, where `backends.compiled_form` finds it;
what is there already is not made again.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_WISH: Final = os.environ.get("MANTA_COMPILED", "")
# For this process, which shall not ask for what it is about to make.
os.environ["MANTA_COMPILED"] = "0"

from backends import compiled_form  # noqa: E402
from scripts import mypyc_build  # noqa: E402

_LOG: Final = "log"
_FAILED: Final = ".failed"
_NICENESS: Final = 19
_AUTOGROUP: Final = Path("/proc/self/autogroup")
_PLAIN: Final = "servers run uncompiled, slower"


def main() -> int:
    """Compile what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/compile.py", description=__doc__)
    parser.add_argument("--optimization", default="2", help="the C compiler's -O (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="C compilers at once")
    parser.add_argument("--if-possible", action="store_true", help="without a compiler: say so, 0")
    parser.add_argument("--background", action="store_true", help="start compiling and return")
    # What --background starts.
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.background:
        print(start_in_background())
        return 0
    why_not = mypyc_build.impediment()
    if why_not:
        print(f"{why_not}: {_PLAIN}")
        return 0 if arguments.if_possible else 1
    if arguments.detached:
        return _compile_quietly(arguments.optimization, arguments.jobs)
    print(mypyc_build.make(arguments.optimization, arguments.jobs))
    return 0


def start_in_background() -> str:
    """Start compiling, unless that is done or cannot be; return what was done, in a line."""
    if _WISH == "0":
        return f"MANTA_COMPILED=0: {_PLAIN}"
    why_not = mypyc_build.impediment()
    if why_not:
        return f"{why_not}: {_PLAIN}"
    wanted = compiled_form.folder()
    log = wanted.parent / _LOG
    if wanted.is_dir():
        return "compiled already: servers run compiled"
    if mypyc_build.is_running():
        return f"compiling in the background since before ({_shown(log)})"
    if wanted.with_suffix(_FAILED).exists():
        return f"cannot be compiled, {_shown(log)} says why: {_PLAIN}"
    wanted.parent.mkdir(exist_ok=True)
    with log.open("w") as output:
        subprocess.Popen(
            [sys.executable, "-u", __file__, "--detached"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the server that 'make serve' starts next.
            start_new_session=True,
        )
    return f"compiling in the background for some minutes ({_shown(log)}); until then {_PLAIN}"


def _compile_quietly(optimization: str, jobs: int) -> int:
    """Compile behind everything else; what does not compile is tried again when it has changed."""
    os.nice(_NICENESS)
    # Where Linux groups processes by session, niceness counts among those of one session alone.
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_NICENESS))
    mark = compiled_form.folder().with_suffix(_FAILED)
    try:
        print(mypyc_build.make(optimization, jobs, waits=False))
    except BlockingIOError:
        print("another process compiles")
    except (SystemExit, subprocess.CalledProcessError) as error:
        print(f"not compiled: {error}; 'make compiled' tries again")
        mark.touch()
        return 1
    return 0


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT)


if __name__ == "__main__":
    sys.exit(main())
