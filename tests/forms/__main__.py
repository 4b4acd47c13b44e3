# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends the same requests to a plain and to a compiled server: python -m tests.forms.

Their answers must be the same to the byte, but for the date and the order of protobuf's maps. Ends
with 1 if any is not.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import grpc

from tests.forms import grpc_requests, http_requests
from tests.integration.conftest import write_add_sub
from tests.support.server import RunningServer
from tests.support.surface_models import write_surface_models

FORMS = {"plain": "0", "compiled": "1"}
FLAGS = ("--http-header-forward-pattern=^x-.*", "--grpc-header-forward-pattern=^x-.*")
_SHOWN_BYTES = 600


def main() -> int:
    """Ask both; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        write_surface_models(Path(folder))
        write_add_sub(Path(folder), "add_sub")
        plain, compiled = (answers(Path(folder), form) for form in FORMS)
    different = [what for what in plain if plain[what] != compiled[what]]
    for what in different:
        print(f"{what}:")
        for form, answer in (("plain", plain[what]), ("compiled", compiled[what])):
            print(f"  {form}: {answer[:_SHOWN_BYTES]!r}")
    print(f"{len(plain)} requests, {len(different)} answered otherwise by the compiled form")
    return 1 if different else 0


def answers(repository: Path, form: str) -> dict[str, bytes]:
    """Start a server of a form; return its answer to each request."""
    begin_s = time.monotonic()
    environment = {**os.environ, "MANTA_COMPILED": FORMS[form]}
    server = RunningServer(repository, *FLAGS, environment=environment)
    found: dict[str, bytes] = {}
    try:
        for what, sent in http_requests.http_requests():
            found[f"HTTP {what}"] = http_requests.answer(server.http, sent)
        with grpc.insecure_channel(server.grpc) as channel:
            for what, call, message in grpc_requests.grpc_requests():
                found[f"gRPC {what}"] = grpc_requests.answer(channel, what, call, message)
    finally:
        status = server.terminate()
    print(f"{form}: {len(found)} answers in {time.monotonic() - begin_s:.0f} s", flush=True)
    assert status == 0, f"the {form} server ended with {status}:\n{''.join(server.lines)}"
    return found


if __name__ == "__main__":
    exit_status = main()
    sys.stdout.flush()
    # Threads of gRPC sometimes crash while the interpreter is torn down.
    os._exit(exit_status)
