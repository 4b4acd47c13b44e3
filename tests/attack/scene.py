# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The server under attack, and what is looked at after each family."""

import os
import random
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.attack.tally import Tally
from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.server import RunningServer

PATIENCE_S: Final = 120
# What a family may leave in the ingress: caches and gaps of its heap, and sockets that close.
_GROWTH_BYTES: Final = 128 << 20
_FD_SLACK: Final = 16
_INGRESS: Final = "ray::ServeReplica:manta:Ingress"
_RESTRICTED: Final = "model-repository,logging,trace"
# Ray puts the process in front of what it prints.
_TRACEBACK: Final = re.compile(r"^(\([^)]*\) )?Traceback \(most recent", re.MULTILINE)
LOG_LINE: Final = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [\w.]+:\d+\] ")


@dataclass(frozen=True)
class Options:
    """How much is sent.

    Attributes:
        seed: Of everything that is chosen at random.
        requests: Fuzzed requests of both protocols together.
        fuzz_s: After which fuzzing ends, whatever has been sent.
        connections: Slow ones at a time.
        waits: Whether the server's own timeouts are waited for.
        corpus_every: Of the corpus of paths, which are given.
    """

    seed: int = 1
    requests: int = 1_000_000
    fuzz_s: float = 3000.0
    connections: int = 200
    waits: bool = True
    corpus_every: int = 1


QUICK: Final = Options(requests=20_000, fuzz_s=25.0, connections=60, waits=False, corpus_every=8)


class Scene:
    """A server with a model, and secrets that only some requests know.

    Args:
        root: Folder for repository and log.
        options: How much is sent.
    """

    def __init__(self, root: Path, options: Options) -> None:
        self.options = options
        self.rng = random.Random(options.seed)
        self.repository = root / "models"
        self.repository.mkdir()
        write_add_sub(self.repository, "add_sub")
        # What no answer may show and no request may change.
        self.canary = f"canary-{secrets.token_hex(8)}"
        (root / "canary.txt").write_text(self.canary)
        self.log = root / "server.log"
        self.secret = secrets.token_hex(16)
        self.credential = b"x-attack-secret: " + self.secret.encode()
        self.metadata = (b"triton-grpc-protocol-x-attack-secret", self.secret.encode())
        password = secrets.token_hex(16)
        self.secrets = {"the restricted APIs' value": self.secret, "a store's password": password}
        self.concealed = ("MANTA_GRPC_RESTRICTED_PROTOCOL",)
        environment = os.environ | {
            self.concealed[0]: f"{_RESTRICTED}:x-attack-secret={self.secret}",
            "AWS_SECRET_ACCESS_KEY": password,
        }
        self.server = RunningServer(
            self.repository,
            "--model-control-mode=explicit",
            "--load-model=*",
            "--allow-client-shm=true",
            f"--log-file={self.log}",
            f"--http-restricted-api={_RESTRICTED}:x-attack-secret={self.secret}",
            environment=environment,
        )
        self._log_read = 0
        self._lines_read = 0
        self.check_served()
        self._descriptors = self.ingress().num_fds()
        self._files = self.files()
        self._rss_bytes = 0

    def ingress(self) -> psutil.Process:
        """Return the process that serves the ports.

        Raises:
            AssertionError: There is none, or there are several.
        """
        end_s = time.monotonic() + PATIENCE_S
        # Ray writes the title anew with every call, and while it does it may be empty.
        while len(found := self.server.processes(_INGRESS)) != 1:
            assert time.monotonic() < end_s, f"the ingress is {found}"
            time.sleep(0.1)
        return found[0]

    def files(self) -> list[str]:
        """Return what lies in the scene's folder, but for what Python caches."""
        root = self.log.parent
        paths = (path.relative_to(root).as_posix() for path in root.rglob("*"))
        return sorted(path for path in paths if "__pycache__" not in path and path != self.log.name)

    def check_served(self) -> None:
        """Ask good questions over both protocols.

        Raises:
            Exception: One has no answer, or a wrong one.
        """
        with triton_http.InferenceServerClient(
            self.server.http, connection_timeout=PATIENCE_S, network_timeout=PATIENCE_S
        ) as client:
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
        with triton_grpc.InferenceServerClient(self.server.grpc) as client:
            inputs = add_sub_inputs(triton_grpc)
            check_add_sub(client.infer("add_sub", inputs, client_timeout=PATIENCE_S))

    def new_log(self) -> str:
        """Return what the server has logged and printed since the last call."""
        content = self.log.read_bytes() if self.log.exists() else b""
        logged, self._log_read = content[self._log_read :], len(content)
        printed, self._lines_read = self.server.lines[self._lines_read :], len(self.server.lines)
        return logged.decode("utf-8", "replace") + "".join(printed)

    def run(self, name: str, attack: Callable[["Scene", Tally], None]) -> Tally:
        """Run a family, then look whether the server is as it was."""
        tally = Tally(name)
        begin_s = time.monotonic()
        try:
            self.new_log()
            ingress = self.ingress()
            pid = ingress.pid
            self._rss_bytes = self._rss_bytes or ingress.memory_info().rss
            attack(self, tally)
            self._check_after(tally, pid)
        except Exception as error:
            tally.findings.append(f"{type(error).__name__}: {error}"[:600])
        tally.seconds = time.monotonic() - begin_s
        return tally

    def _check_after(self, tally: Tally, pid: int) -> None:
        self.check_served()
        ingress = self.ingress()
        tally.expect(ingress.pid == pid, "the ingress has died and was replaced")
        self._eventually_closed(tally, ingress)
        self._eventually_small(tally, ingress)
        text = self.new_log()
        found = _TRACEBACK.search(text)
        at = found.start() if found else 0
        tally.expect(not found, f"a traceback in the log: ...{text[max(at - 200, 0) : at + 400]}")
        tally.expect(self.secret not in text, "the secret is in the log")
        tally.expect(self.files() == self._files, f"files have changed: {self.files()}")

    def _eventually_small(self, tally: Tally, ingress: psutil.Process) -> None:
        most = self._rss_bytes + _GROWTH_BYTES
        # What large messages have left is given back after some seconds.
        rss_bytes = _eventually(lambda: int(ingress.memory_info().rss), most)
        grown_bytes = rss_bytes - self._rss_bytes
        tally.expect(rss_bytes <= most, f"memory has grown by {grown_bytes >> 20} MiB")

    def _eventually_closed(self, tally: Tally, ingress: psutil.Process) -> None:
        most = self._descriptors + _FD_SLACK
        count = _eventually(ingress.num_fds, most)
        tally.expect(count <= most, f"{count} descriptors are open, {self._descriptors} at first")


def _eventually(read: Callable[[], int], most: int) -> int:
    """Return what is read once it is no more than ``most``, or after `PATIENCE_S`."""
    end_s = time.monotonic() + PATIENCE_S
    while (found := read()) > most and time.monotonic() < end_s:
        time.sleep(0.2)
    return found
