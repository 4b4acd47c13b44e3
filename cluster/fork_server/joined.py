# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The fork server of a node that `ray start` starts, as in KubeRay's pods.

With ``RAY_START_HOOK=manta.fork_server.begin`` in its environment `ray start` calls
`begin` before it starts anything. The raylet is then started so that it begins workers by way of
the client, and beside it a process that watches it: ``python -m cluster.fork_server.joined RAYLET
FOLDER``. That starts the fork server, another one where it was killed, and ends it with the raylet.
Without either the client starts workers plainly.

The folder is one of Ray's session, which lasts as long as the raylet's own sockets.
"""

import contextlib
import inspect
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from cluster.fork_server import client_file
from cluster.fork_server.starting import ForkServer, JoinedNode, in_front_of_workers, new_folder

# As `manta serve` has --fork-server-preload.
PRELOAD_VARIABLE: Final = "MANTA_FORK_SERVER_PRELOAD"
LOG: Final = "manta_fork_server.log"
_MODULE: Final = "cluster.fork_server.joined"
_TRY_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 1.0


def begin(params: Any, is_head: bool) -> None:
    """Have the raylet that `ray start` is about to start begin workers by way of the client.

    Args:
        params: The node's, of Ray's class `RayParams`.
        is_head: Whether the node is the head, which makes no difference.
    """
    del is_head
    try:
        why_not = _impediment(params)
        if not why_not:
            _replace_start()
    except Exception as error:
        # Of another Ray than is known; `ray start` would end with it.
        why_not = repr(error)
    if why_not:
        _say(f"workers of this node are started plainly: {why_not}")


def _replace_start() -> None:
    """Have the next raylet that this process starts be one with a fork server."""
    from ray._private import services  # noqa: PLC0415 - `ray start` has imported it

    module: Any = services
    start = module.start_raylet

    def started(*given: Any, **named: Any) -> Any:
        module.start_raylet = start
        return _with_fork_server(start, given, named)

    module.start_raylet = started


def _impediment(params: Any) -> str:
    """Say why nothing is forked on a node; empty if it may be."""
    isolation = getattr(params, "resource_isolation_config", None)
    if isolation is not None and isolation.is_enabled():
        return "Ray moves them into control groups"
    if getattr(params, "worker_path", None) or getattr(params, "setup_worker_path", None):
        return "they are to run another file than Ray's own"
    return ""


def _with_fork_server(start: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Start a raylet, plainly or by way of the client, and return what that returns."""
    folder = None
    try:
        told = inspect.signature(start).bind(*given, **named).arguments
        log = Path(told["log_dir"], LOG)
        folder = new_folder(Path(told["session_dir"]))
        client = _tried_client(folder)
    except Exception as error:
        # As in `begin`.
        _say(f"workers of this node are started plainly: {error!r}")
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return start(*given, **named)
    with in_front_of_workers(client, folder, os.environ):
        info = start(*given, **named)
    # From here on the raylet starts the client, which does without the rest.
    try:
        _watch_beside(info.process.pid, folder, log)
    except (AttributeError, OSError) as error:
        _say(f"workers of this node are started plainly: {error}")
    else:
        _say(f"workers of this node are forked; see {log}")
    return info


def _tried_client(folder: Path) -> Path:
    """Return the client, once it has run Python: a raylet whose client cannot has no workers.

    Raises:
        OSError: It cannot.
    """
    client = client_file.made(folder)
    if " " in str(client):
        raise OSError(f"the raylet takes no path with blanks: {client}")
    # Where a plain start imports Manta, which may be by the folder of the command alone.
    command = [str(client), "-P", "-c", f"import {_MODULE}"]
    with in_front_of_workers(client, folder, environment := dict(os.environ)):
        try:
            done = subprocess.run(  # noqa: S603 - of ours
                command, env=environment, capture_output=True, timeout=_TRY_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise OSError(f"{client} cannot run Python: status {done.returncode} {' '.join(last)}")
    return client


def _watch_beside(raylet: int, folder: Path, log: Path) -> None:
    """Start what watches a raylet.

    Raises:
        OSError: It cannot be started, or this is not the raylet but, say, a debugger.
    """
    # Not the name that the kernel shows, which a process gets a moment after its program.
    name = Path(f"/proc/{raylet}/exe").readlink().name
    if name != "raylet":
        raise OSError(f"process {raylet} is not the raylet but '{name}'")
    # Not `subprocess`, which complains at the end of `ray start` of what goes on running.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", _MODULE, str(raylet), str(folder)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def watch(raylet: int, folder: Path, environment: dict[str, str]) -> None:
    """Run the fork server of a node until its raylet has ended.

    Args:
        raylet: Its pid.
        folder: Of the socket.
        environment: What both run in.
    """
    with contextlib.suppress(ProcessLookupError):
        ended = os.pidfd_open(raylet)
        forks = _begun(environment, JoinedNode(raylet, folder))
        while not select.select([ended], [], [], _LOOK_S)[0]:
            if forks is not None and forks.look():
                _say("the fork server had ended: another one was started")
        if forks is not None:
            forks.end()
    shutil.rmtree(folder, ignore_errors=True)


def _begun(environment: dict[str, str], node: JoinedNode) -> ForkServer | None:
    """Start the fork server; None where it cannot be."""
    try:
        return ForkServer(environment, preload=environment.get(PRELOAD_VARIABLE, ""), joined=node)
    except OSError as error:
        _say(f"workers of this node are started plainly: there is no fork server: {error}")
        return None


def _say(text: str) -> None:
    # `ray start` may have been started with its errors closed.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"manta: {text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]), dict(os.environ))
