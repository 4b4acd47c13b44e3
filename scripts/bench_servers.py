# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The servers under load: how they are started, what they have counted, which CPU time they took.

A server's processes are not only its process's descendants: Ray's may outlive who started them and
get another parent. So each server has a mark of its own in its environment, which they inherit.
"""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
START_S: Final = 300
START_TRIES: Final = 2
STOP_S: Final = 40
MARK: Final = "MANTA_BENCH_SERVER"
PROC: Final = Path("/proc")
# Statistics of an ingress or an instance reach others after as long as this.
SETTLED_S: Final = 0.3
CACHE_BYTES: Final = 64 << 20


class NotReadyError(Exception):
    """A server ended or took too long to start."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server's statistics have counted of a model: requests, rows and executions."""

    requests: int
    rows: int
    executions: int


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load.

    Attributes:
        name: Of its log. The one that is compared with the reference is ``manta``.
        http: Port.
        grpc: Port.
        mark: In the environment of its processes.
        scheme: Of its HTTP endpoint.
        secure_grpc: Whether gRPC is over TLS.
        pid: Of the process that was started.
    """

    name: str
    http: int
    grpc: int
    mark: str = ""
    scheme: str = "http"
    secure_grpc: bool = False
    pid: int = 0

    def cpu_s(self) -> float:
        """Return user and system seconds of its processes, also of those that they waited for."""
        return sum(self.processes().values())

    def processes(self) -> dict[int, float]:
        """Return its processes: the CPU seconds of each.

        Processes that set a title overwrite their environment with it, and are found by their
        parents. Seconds of children that ended are those of the parent that has waited for them.
        """
        entries = _entries()
        entry = f"{MARK}={self.mark}".encode()
        found = {self.pid, *(process for process in entries if _marked(process, entry))}
        parents = {process: int(fields[1]) for process, fields in entries.items()}
        while new := {each for each, parent in parents.items() if parent in found} - found:
            found |= new
        tick = os.sysconf("SC_CLK_TCK")
        return {each: sum(map(int, entries[each][11:15])) / tick for each in found & set(entries)}

    def counts(self, model: str) -> Counts:
        """Return what was counted, once it no longer changes."""
        before = None
        while True:
            found = json.loads(
                _get(f"{self.scheme}://127.0.0.1:{self.http}/v2/models/{model}/stats")
            )
            stats = found["model_stats"][0]
            kinds = stats["inference_stats"]
            requests = sum(int(kinds[kind]["count"]) for kind in ("success", "fail"))
            now = Counts(requests, int(stats["inference_count"]), int(stats["execution_count"]))
            if now == before:
                return now
            before = now
            time.sleep(SETTLED_S)


def _get(url: str) -> bytes:
    unchecked = ssl._create_unverified_context()  # noqa: SLF001
    with urllib.request.urlopen(url, context=unchecked) as answer:
        return bytes(answer.read())


def _entries() -> dict[int, list[str]]:
    """Return what ``/proc`` says in ``stat`` after each process's name, by its id."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            # A process may have ended meanwhile; its name may contain spaces and brackets.
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text()
                found[int(folder.name)] = stat.rpartition(")")[2].split()
    return found


def _marked(process: int, entry: bytes) -> bool:
    with contextlib.suppress(OSError):
        return entry in (PROC / str(process) / "environ").read_bytes().split(b"\0")
    return False


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_ready(target: Target, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            _get(f"{target.scheme}://127.0.0.1:{target.http}/v2/health/ready")
            return True
        time.sleep(0.2)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _server(target: Target, command: list[str], work: Path) -> Iterator[Target]:
    log = work / f"{target.name}.log"
    environment = {**os.environ, MARK: target.mark}
    # On a busy machine the reference may end for a lock that it has waited for too long.
    for _ in range(START_TRIES):
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, env=environment)
        try:
            if _wait_ready(target, process):
                yield replace(target, pid=process.pid)
                return
        finally:
            _stop(process)
    raise NotReadyError(f"{target.name} does not get ready:\n{log.read_text()[-4000:]}")


def triton(
    repositories: list[Path], work: Path, *flags: str, name: str = "triton", tls: str = ""
) -> contextlib.AbstractContextManager[Target]:
    """Serve repositories with the reference Triton; ``tls`` may be ``grpc``."""
    ports = free_ports(3)
    command = [
        str(ROOT / "scripts/reference_triton.sh"),
        str(repositories[0]),
        *map(str, ports),
        *(f"--model-repository={each}" for each in repositories[1:]),
        f"--cache-config=local,size={CACHE_BYTES}",
        # The reference's own patience ends at 30 s, which a busy machine may need.
        "--model-load-thread-count=1",
        f"--backend-config=python,stub-timeout-seconds={START_S}",
        *_tls_flags(tls, work),
        *flags,
    ]
    return _server(_target(name, ports, tls), command, work)


def manta(
    repositories: list[Path], work: Path, *flags: str, name: str = "manta", tls: str = ""
) -> contextlib.AbstractContextManager[Target]:
    """Serve repositories with Manta; ``tls`` may be ``http`` or ``grpc``."""
    ports = free_ports(3)
    command = [
        str(Path(sys.executable).parent / "python"),
        *("-m", "cluster", "serve"),
        *(f"--model-repository={each}" for each in repositories),
        f"--http-port={ports[0]}",
        f"--grpc-port={ports[1]}",
        f"--metrics-port={ports[2]}",
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--allow-client-shm=true",
        f"--cache-config=local,size={CACHE_BYTES}",
        *_tls_flags(tls, work),
        *flags,
        *os.environ.get("MANTA_BENCH_FLAGS", "").split(),
    ]
    return _server(_target(name, ports, tls), command, work)


SERVERS: Final = {"triton": triton, "manta": manta}


def _target(name: str, ports: list[int], tls: str) -> Target:
    scheme = "https" if tls == "http" else "http"
    return Target(name, ports[0], ports[1], uuid.uuid4().hex, scheme, tls == "grpc")


def certificate(work: Path) -> tuple[Path, Path]:
    """Return the files of a certificate of ``localhost`` that signs itself, and of its key."""
    cert, key = work / "cert.pem", work / "key.pem"
    if not cert.exists():
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", str(key), "-out", str(cert)),
            ],
            check=True,
            capture_output=True,
        )
    return cert, key


def _tls_flags(tls: str, work: Path) -> list[str]:
    if not tls:
        return []
    cert, key = certificate(work)
    return [
        f"--{tls}-use-ssl=true",
        f"--{tls}-server-cert={cert}",
        f"--{tls}-server-key={key}",
    ]
