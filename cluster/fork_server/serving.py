# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The fork server: ``python -m cluster.fork_server SOCKET PARENT [MODULES [KIND]]``.

SOCKET is a descriptor, MODULES are separated by commas: what it imports besides. Requests that come
while it imports wait in the socket's queue; from then on none waits for more than the forks before
it. It ends with its parent.

On a Ray that others share (KIND `OF_ALL_JOBS`) a worker may be any job's, or another release's of
Manta, which find modules of these names elsewhere. So it imports what Manta's processes import, and
nothing of Manta's.
"""

import contextlib
import ctypes
import gc
import mmap
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Final, NamedTuple

from cluster.fork_server import imported
from cluster.fork_server.child import Surroundings, become, run_as_main, surroundings_of
from cluster.fork_server.differences import are_within, difference, limits_of, place_of
from cluster.fork_server.imported import prepared, say
from cluster.fork_server.requests import (
    ANSWER,
    HEADER,
    IMPORT,
    MARK,
    OF_ALL_JOBS,
    OF_ONE_SERVER,
    REFUSED,
    Request,
    RequestError,
    body_bytes,
    decoded,
    script_of,
)
from cluster.fork_server.trials import MoreImports

# What a client that has connected may take to say what it wants.
_READ_TIMEOUT_S: Final = 5.0
_LOOK_S: Final = 1.0
# A client gives up after a minute, and the last import takes as long as its trial did.
_PRELOAD_S: Final = 20.0
_STANDARD_DESCRIPTORS: Final = 3
_CREDENTIALS: Final = struct.Struct("=iII")


class Forked(NamedTuple):
    """In the child: what it is to run."""

    script: str
    code: CodeType


class ForkServer:
    """Accepts clients and forks.

    Args:
        listener: The socket it listens on.
        parent: The process it ends with.
    """

    def __init__(self, listener: socket.socket, parent: int) -> None:
        self._listener = listener
        self._environment = dict(os.environb)
        self._place = place_of(os.getpid())
        self._limits = limits_of(os.getpid())
        self._parent = parent
        self._pid = os.getpid()
        self._code: dict[str, CodeType] = {}
        self._imports = MoreImports()

    def preload(self, names: Sequence[str]) -> None:
        """Import modules that models need, beforehand; those that take long while it serves."""
        self._imports.wanted(names)
        self._imports.finish(_PRELOAD_S)

    def serve(self) -> Forked | None:
        """Fork for each client; returns in each child, and None when the parent has ended."""
        self._listener.settimeout(_LOOK_S)
        while os.getppid() == self._parent:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                self._imports.look()
                continue
            forked = self._served(connection)
            if forked is not None:
                return forked
        return None

    def _served(self, connection: socket.socket) -> Forked | None:
        """Fork for a client, or refuse; in the child return what it runs."""
        connection.settimeout(_READ_TIMEOUT_S)
        descriptors: list[int] = []
        pid = 0
        try:
            client = _client(connection)
            request = _received(connection, descriptors)
            if request.arguments[0] == IMPORT:
                self._imports.wanted([os.fsdecode(each) for each in request.arguments[1:]])
                connection.sendall(ANSWER.pack(0))
                return None
            script = script_of(request.arguments)
            given = surroundings_of(client, limits_of(client))
            why_not = self._impediment(request, client, given)
            if why_not:
                say(f"{script or 'a process'} is started plainly: {why_not}")
                connection.sendall(ANSWER.pack(REFUSED))
            else:
                code = self._compiled(script)
                pid = os.fork()
                if not pid:
                    return self._forked(request, connection, descriptors, given, code)
                connection.sendall(ANSWER.pack(pid))
        except Exception as error:
            # The client has ended, or has waited too long and has started a process itself.
            say(f"a client: {error}")
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        finally:
            if os.getpid() == self._pid:
                connection.close()
                for each in descriptors:
                    os.close(each)
        return None

    def _compiled(self, script: str) -> CodeType:
        if script not in self._code:
            self._code[script] = compile(Path(script).read_bytes(), script, "exec")
        return self._code[script]

    def _forked(
        self,
        request: Request,
        connection: socket.socket,
        descriptors: list[int],
        given: Surroundings,
        code: CodeType,
    ) -> Forked:
        """In a child: become what was asked for. What fails ends it: it must not go on as this."""
        try:
            self._listener.close()
            connection.close()
            become(request, descriptors, given)
            return Forked(script_of(request.arguments), code)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _impediment(self, request: Request, client: int, given: Surroundings) -> str:
        if not script_of(request.arguments):
            return "it runs no file"
        differing = difference(self._environment, request.environment)
        if differing:
            return f"its environment differs in {differing}"
        if place_of(client) != self._place:
            return "its control group or its namespaces are others"
        if not are_within(given.limits, self._limits):
            return "its resource limits are higher"
        if given.niceness < os.getpriority(os.PRIO_PROCESS, 0):
            return "its niceness is lower"
        return ""


def _client(connection: socket.socket) -> int:
    """Return the pid of who has connected.

    Raises:
        RequestError: It is another user's.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(raw)
    if user != os.getuid():
        raise RequestError(f"it is a process of user {user}")
    return int(pid)


def _received(connection: socket.socket, descriptors: list[int]) -> Request:
    header, found, _, _ = socket.recv_fds(connection, HEADER.size, _STANDARD_DESCRIPTORS)
    descriptors += found
    if len(found) != _STANDARD_DESCRIPTORS:
        raise RequestError(f"{len(found)} descriptors")
    size = body_bytes(header)
    body = bytearray()
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise RequestError("it ends early")
        body += part
    return decoded(header, bytes(body))


def mark(path: Path) -> None:
    """Map a file, by which the kernel shows this process and all that it forks."""
    library = ctypes.CDLL(None, use_errno=True)
    # Unlike that of `mmap` it keeps no descriptor.
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    with path.open("rb") as file:
        library.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)


def main(
    number: str, parent: str, modules: str = "", kind: str = OF_ONE_SERVER, *_room: str
) -> None:
    """Serve until the parent ends; in a child run what was asked for. Does not return.

    Args:
        number: Of the socket's descriptor.
        parent: Its pid.
        modules: To import besides, separated by commas.
        kind: Whose workers it is asked for.
    """
    import setproctitle  # noqa: PLC0415 - its first call needs the command line as it is

    setproctitle.setproctitle("manta: fork server")
    is_shared = kind == OF_ALL_JOBS
    listener = socket.socket(fileno=int(number))
    gc.disable()
    if is_shared:
        prepared(imported.RAY)
        prepared(imported.others_of(imported.WORKERS))
    else:
        prepared((*imported.RAY, *imported.WORKERS))
    imported.title_by_library()
    # So that none of its children is left a zombie.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    mark(Path(listener.getsockname()).with_name(MARK))
    server = ForkServer(listener, int(parent))
    server.preload([each for each in modules.split(",") if each])
    forked = server.serve()
    if forked is not None:
        if is_shared:
            imported.forget_own()
        run_as_main(*forked)
    sys.exit(0)
