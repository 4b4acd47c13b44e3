# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A redis-server on a free port of loopback, which keeps nothing on disk."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

from tests.support.free_ports import free_ports


@contextlib.contextmanager
def redis_server() -> Iterator[int | None]:
    """Run it while the block does; yields its port, or None where it is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port = free_ports(1).first
    listening = ("--port", str(port), "--bind", "127.0.0.1")
    command = (program, *listening, "--save", "", "--daemonize", "no")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield port
        process.terminate()
