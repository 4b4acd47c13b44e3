# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta logs``: what a server on this machine has logged."""

import argparse
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Final

from backends.api.errors import TritonError, UnsupportedError
from cluster.commands.client.command_line import argument, command, connect
from cluster.commands.client.connection import Server
from cluster.commands.client.models import index, instances, require_model

_DESCRIPTION: Final = """Print the last lines that a server on this machine has logged: of one model
what its processes have written, else the file of --log-file, or all that its processes have
written."""
# Marks of Ray's in the files of its workers.
_MARK: Final = re.compile(rb":(job_id|actor_name|task_name|repr_name):")
_OF_WORKER: Final = re.compile(r"-[0-9]+\.(out|err)$")
# All but tab and the end of a line.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PROCESSES: Final = Path("/proc")
_POLL_S: Final = 0.25
_END_BYTES: Final = 1 << 20


@command(
    "logs",
    _DESCRIPTION,
    argument("model", nargs="?", help="only what its processes have written"),
    argument("-f", "--follow", action="store_true", help="go on until Ctrl-C"),
    argument("-n", "--lines", type=int, default=50, help="of each file (%(default)s)"),
    has_json=False,
)
def main(given: argparse.Namespace) -> None:
    """Run ``manta logs``."""
    server = connect(given)
    files = _files(server, given.model)
    if not files:
        where = f"model '{given.model}' of " if given.model else ""
        raise UnsupportedError(
            f"{where}{server.address.shown} has no log on this machine; ask on the server's own, or"
            " what runs its containers (kubectl logs)"
        )
    show(files, given.lines, follows=given.follow)


def _files(server: Server, model: str | None) -> dict[Path, str]:
    """Return the files, each with what it is called; none of another machine's server."""
    rows = instances(server) or []
    if model is not None:
        require_model(index(server), model)
        rows = [row for row in rows if row["model"] == model]
    else:
        own = _log_file(server, [row["pid"] for row in rows if row["pid"]])
        if own is not None:
            return {own: str(own)}
    found = {
        path: f"{row['name']} (pid {row['pid']}, {path.suffix[1:]})"
        for row in rows
        if row["pid"]
        for path in written_by(row["pid"])
    }
    if model is None:
        found |= {each: each.name for each in _beside(found) if each not in found}
    return found


def _beside(files: Collection[Path]) -> list[Path]:
    """Return the files beside those of instances: of the controller and the ingresses, too."""
    found = (path for each in {path.parent for path in files} for path in each.glob("worker-*"))
    return sorted(path for path in found if path.suffix in {".out", ".err"})


def written_by(pid: int) -> list[Path]:
    """Return the files that a worker of Ray on this machine writes its output to.

    A process of another machine's server may have the number of one here: its files are not named
    by it.
    """
    found = []
    for number in (1, 2):
        with suppress(OSError):
            path = (_PROCESSES / str(pid) / "fd" / str(number)).readlink()
            if re.fullmatch(rf"worker-.*-{pid}\.(out|err)", path.name):
                found.append(path)
    return found


def _log_file(server: Server, pids: Sequence[int]) -> Path | None:
    """Return the server's log file, if a process of the server on this machine has it open.

    Any file of this machine may have the path that a server elsewhere tells.
    """
    try:
        path = Path(server.get("/v2/logging").get("log_file", ""))
    except TritonError:
        return None
    if not path.is_absolute() or not path.is_file():
        return None
    files = _beside([each for pid in pids for each in written_by(pid)])
    numbers = {int(each.stem.rpartition("-")[2]) for each in files if _OF_WORKER.search(each.name)}
    workers = (pid for pid in sorted(numbers) if written_by(pid))
    return path if any(_has_open(pid, path) for pid in workers) else None


def _has_open(pid: int, path: Path) -> bool:
    with suppress(OSError):
        for link in (_PROCESSES / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if link.samefile(path):
                    return True
    return False


def show(files: Mapping[Path, str], lines: int, *, follows: bool) -> None:
    """Print the ends of files, under their names, and what is added until somebody ends it."""
    with ExitStack() as stack:
        opened = [(stack.enter_context(path.open("rb")), name) for path, name in files.items()]
        last, is_one = "", len(opened) == 1
        for file, title in opened:
            last = _print(tail(file, lines), title, last, is_one=is_one)
        while follows:
            time.sleep(_POLL_S)
            for file, title in opened:
                last = _print(list(_new(file)), title, last, is_one=is_one)


def tail(file: BinaryIO, count: int) -> list[bytes]:
    """Return the last lines of a file that is open at its start, and leave it at its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    lines = list(_new(file))
    return lines[len(lines) - min(count, len(lines)) :]


def _new(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline():
        if not line.endswith(b"\n"):
            # Not written to its end yet.
            file.seek(-len(line), os.SEEK_CUR)
            return
        if not _MARK.search(line):
            yield line


def _print(lines: Sequence[bytes], title: str, last: str, *, is_one: bool) -> str:
    """Print lines under the name of their file; return whose the last were."""
    if not lines:
        return last
    # What others have written may not steer a terminal.
    shown = _escaped if sys.stdout.isatty() else str
    if title != last and not is_one:
        print(f"==> {shown(title)} <==")
    for line in lines:
        print(shown(line.decode(errors="replace")), end="")
    sys.stdout.flush()
    return title


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
