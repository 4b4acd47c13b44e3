# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server that trials run on: one of its own, or one that runs already."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import manta
from backends.api.errors import InternalError, UnavailableError

_READY: Final = "MANTA_READY "
_START_S: Final = 300.0
_STARTS: Final = 3
_STOP_S: Final = 60.0
_KEPT_LINES: Final = 200
_LINE_BYTES: Final = 1 << 20
_LOG_DELAY_S: Final = 1.0
# What a Ray job and a worker of Ray have in their environment, and a server of its own must not: it
# would join the surrounding cluster, or start its processes in the job's runtime environment.
_OF_A_CLUSTER: Final = frozenset(
    {
        "RAY_ADDRESS",
        "RAY_CLIENT_MODE",
        "RAY_JOB_CONFIG_JSON_ENV_VAR",
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
        "RAY_JOB_ID",
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING",
        "RAY_RAYLET_PID",
        "RAY_num_grpc_internal_threads",
    }
)
# An error in the form of Triton's log: severity and date, time, process, place in the code, text.
_ERROR: Final = re.compile(r"E\d{4} [\d:.]+ \d+ [\w.]+:\d+\] (?P<text>.*)")
# The kernel sends it SIGTERM when this process ends, however it ends.
_PROGRAM: Final = (
    "import ctypes, runpy; ctypes.CDLL(None).prctl(1, 15); "
    "runpy.run_module('manta', run_name='__main__', alter_sys=True)"
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """host:port of a server's endpoints; ``pid`` is 0 where its processes cannot be seen."""

    http: str
    grpc: str
    metrics: str
    pid: int = 0


class Server(Protocol):
    """A server in the mode ``explicit``."""

    async def start(self) -> Addresses:
        """Make sure that it runs.

        Raises:
            UnavailableError: It does not start, or cannot be reached.
        """

    async def stop(self) -> None:
        """Stop it where it is an own one."""

    @property
    def has_died(self) -> bool:
        """Whether it was started and runs no more."""

    def forget(self) -> None:
        """Pass over what it has logged up to now."""

    async def why(self) -> str:
        """Return the last error that it has logged since; empty for none."""


class RunningServer:
    """A server that somebody else has started with ``--model-control-mode=explicit``."""

    has_died = False

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses

    async def start(self) -> Addresses:
        """Return where it is."""
        return self._addresses

    async def stop(self) -> None:
        """Leave it alone."""

    def forget(self) -> None:
        """Do nothing."""

    async def why(self) -> str:
        """Return nothing: its log is not seen."""
        return ""


class EmbeddedServer:
    """A server in a process of its own, with a Ray of its own and free ports on loopback.

    Args:
        repositories: Model repositories.
        flags: Further flags of ``manta serve``.
        environment: Variables in addition to those of this process.
        log: Where what it prints is appended; None for nowhere.
        program: The Python program that is run with the arguments of ``manta``.
    """

    def __init__(
        self,
        repositories: Sequence[str],
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        program: str = _PROGRAM,
    ) -> None:
        self._program = program
        self._repositories, self._flags = tuple(repositories), tuple(flags)
        self._environment = dict(environment or {})
        self._log = log
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._addresses: Addresses | None = None

    @property
    def has_died(self) -> bool:
        """Whether it was started and runs no more."""
        return self._process is not None and self._process.returncode is not None

    async def start(self) -> Addresses:
        """Start it, or again when it has died.

        Raises:
            UnavailableError: It does not start.
        """
        if self._addresses is not None and not self.has_died:
            return self._addresses
        await self.stop()
        for left in range(_STARTS - 1, -1, -1):
            try:
                self._addresses = await self._start()
                break
            except UnavailableError:
                # Ray gives up after 30 s, which is little where a machine is very busy.
                if not left:
                    raise
        assert self._addresses is not None  # noqa: S101 - it has started
        return self._addresses

    async def _start(self) -> Addresses:
        ready: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        # A session of its own: Ctrl-C ends the current trial, not the server.
        self._process = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._variables(),
            start_new_session=True,
            limit=_LINE_BYTES,
        )
        self._reading = asyncio.create_task(self._read(self._process, ready))
        try:
            async with asyncio.timeout(_START_S):
                return await ready
        except TimeoutError:
            await self.stop()
            raise UnavailableError(
                f"the embedded server was not ready after {_START_S:g} s; its last lines: "
                f"{self._tail()}"
            ) from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop it and wait for its end."""
        process, self._process, self._addresses = self._process, None, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except (TimeoutError, asyncio.CancelledError):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._reading is not None:
            await self._reading

    def forget(self) -> None:
        """Pass over what it has logged up to now."""
        self._lines.clear()

    async def why(self) -> str:
        """Return the last error that it has logged since; empty for none."""
        # Lines of other processes come through Ray, which gathers them for half a second.
        await asyncio.sleep(_LOG_DELAY_S)
        errors = [found["text"] for line in self._lines if (found := _ERROR.search(line))]
        return errors[-1].strip('"') if errors else ""

    def _command(self) -> list[str]:
        return [
            sys.executable,
            "-c",
            self._program,
            "serve",
            *(f"--model-repository={path}" for path in self._repositories),
            "--model-control-mode=explicit",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--http-port=0",
            "--grpc-port=0",
            "--metrics-port=0",
            # Comes before what the environment says.
            "--ray-address=",
            *self._flags,
        ]

    def _variables(self) -> dict[str, str]:
        # The code that runs here, from whatever folder.
        places = [
            str(Path(manta.__file__).resolve().parents[1]),
            os.environ.get("PYTHONPATH", ""),
        ]
        path = os.pathsep.join(each for each in places if each)
        outer = {name: text for name, text in os.environ.items() if name not in _OF_A_CLUSTER}
        return {**outer, "PYTHONPATH": path, **self._environment}

    async def _read(
        self, process: asyncio.subprocess.Process, ready: "asyncio.Future[Addresses]"
    ) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(self._log.open("a")) if self._log else None
            async for raw in process.stdout:
                line = raw.decode(errors="replace")
                self._lines.append(line.rstrip())
                if log:
                    log.write(line)
                    log.flush()
                if line.startswith(_READY) and not ready.done():
                    try:
                        ready.set_result(_addresses(line))
                    except InternalError as error:
                        ready.set_exception(error)
        await process.wait()
        if not ready.done():
            ready.set_exception(
                UnavailableError(f"the embedded server ended at its start: {self._tail()}")
            )

    def _tail(self) -> str:
        return " | ".join(list(self._lines)[-5:]) or "it printed nothing"


def _addresses(line: str) -> Addresses:
    told = json.loads(line.removeprefix(_READY))
    try:
        return Addresses(told["http"], told["grpc"], told["metrics"], int(told["pid"]))
    except KeyError as missing:
        raise InternalError(
            f"the embedded server told no {missing}; expected http, grpc, metrics and pid: remove "
            "flags that turn endpoints off"
        ) from None
