# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python examples of triton-inference-server/client, in place, against Manta.

    TRITON_CLIENT_SRC=/path/to/client python -m tests.conformance.client_examples [NAME...]

Prints a line for each program; the exit status is 1 when one of them failed. NAME chooses
programs by a part of their name.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.example_models import EXTRAS, REPOSITORY, ExampleModel
from tests.support.server import RunningServer

SOURCE_VARIABLE: Final = "TRITON_CLIENT_SRC"
TIMEOUT_S: Final = 120.0

# Some examples end with status 0 although they have found something wrong.
COMPLAINTS: Final = ("Traceback", "FAILED", "failed to", "creation failed", "Expect error occurs")

# For a program that names its addresses.
REDIRECTED: Final = Path(__file__).with_name("redirected.py")


@dataclass(frozen=True, slots=True)
class Example:
    """One run of a program.

    Attributes:
        program: File name.
        address: Which of the server's addresses it is given: http, grpc, or none for one that
            names its own.
        arguments: Further arguments.
        model_count: Models the repository must hold exactly; 0 when it does not matter.
    """

    program: str
    address: str
    arguments: tuple[str, ...] = ()
    model_count: int = 0

    @property
    def title(self) -> str:
        """Program and arguments."""
        return " ".join((self.program, *self.arguments))


def _runs(program: str, address: str, *alternatives: str) -> list[Example]:
    return [Example(program, address, tuple(each.split())) for each in alternatives or ("",)]


_COMPRESSION = "--request-compression-algorithm {0} --response-compression-algorithm {0}"

# Its server takes any bytes as an image.
_IMAGE = "ensemble_image_client.py"

EXAMPLES: Final = [
    *_runs("ensemble_image_client.py", "http", f"-c 3 {_IMAGE}"),
    *_runs("ensemble_image_client.py", "grpc", f"-i grpc -c 3 {_IMAGE}"),
    *_runs("grpc_client.py", "grpc"),
    *_runs("grpc_explicit_byte_content_client.py", "grpc"),
    *_runs("grpc_explicit_int8_content_client.py", "grpc"),
    *_runs("grpc_explicit_int_content_client.py", "grpc"),
    *_runs("memory_growth_test.py", "", "-i http -r 50", "-i grpc -r 50"),
    *_runs("reuse_infer_objects_client.py", "http", "-i http"),
    *_runs("reuse_infer_objects_client.py", "grpc", "-i grpc"),
    *_runs("simple_grpc_aio_infer_client.py", "grpc", "", "-C gzip"),
    *_runs("simple_grpc_aio_sequence_stream_infer_client.py", "grpc", "", "-d -o 100"),
    *_runs("simple_grpc_async_infer_client.py", "grpc", "", "-t 30"),
    *_runs("simple_grpc_custom_args_client.py", "grpc"),
    *_runs("simple_grpc_custom_repeat.py", "grpc"),
    *_runs("simple_grpc_health_metadata.py", "grpc"),
    *_runs("simple_grpc_infer_client.py", "grpc", "", "-C gzip", "-C deflate"),
    *_runs("simple_grpc_keepalive_client.py", "grpc"),
    Example("simple_grpc_model_control.py", "grpc", model_count=8),
    *_runs("simple_grpc_sequence_stream_infer_client.py", "grpc", "", "-d -o 200"),
    *_runs("simple_grpc_sequence_sync_infer_client.py", "grpc", "", "-d -o 300"),
    *_runs("simple_grpc_shm_client.py", "grpc"),
    *_runs("simple_grpc_shm_string_client.py", "grpc"),
    *_runs("simple_grpc_string_infer_client.py", "grpc"),
    *_runs("simple_http_aio_infer_client.py", "http"),
    *_runs("simple_http_async_infer_client.py", "http"),
    *_runs("simple_http_health_metadata.py", "http"),
    *_runs(
        "simple_http_infer_client.py",
        "http",
        "",
        _COMPRESSION.format("gzip"),
        _COMPRESSION.format("deflate"),
    ),
    Example("simple_http_model_control.py", "http", model_count=7),
    *_runs("simple_http_sequence_sync_infer_client.py", "http", "", "-d -o 400"),
    *_runs("simple_http_shm_client.py", "http"),
    *_runs("simple_http_shm_string_client.py", "http"),
    *_runs("simple_http_string_infer_client.py", "http"),
]

NOT_RUN: Final = {
    "grpc_image_client.py": "needs image files",
    "image_client.py": "needs image files",
    "simple_grpc_cudashm_client.py": "needs a GPU on both sides",
    "simple_http_cudashm_client.py": "needs a GPU on both sides",
}


@contextmanager
def serving(models: tuple[ExampleModel, ...]) -> Iterator[RunningServer]:
    """Serve models in explicit model control mode, all of them loaded."""
    with tempfile.TemporaryDirectory() as root:
        for model in models:
            model.write(Path(root))
        flags = ("--model-control-mode=explicit", "--load-model=*", "--allow-client-shm=true")
        server = RunningServer(Path(root), *flags)
        try:
            yield server
        finally:
            server.terminate()


def run(example: Example, source: Path, server: RunningServer) -> str:
    """Run an example and return what was wrong; empty when it passed."""
    program = [str(source / example.program), *example.arguments]
    if example.address:
        command = [sys.executable, *program, "-u", getattr(server, example.address)]
    else:
        addresses = [server.http, server.grpc, server.metrics]
        command = [sys.executable, str(REDIRECTED), *addresses, *program]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=source
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {TIMEOUT_S:.0f} s"
    output = ended.stdout + ended.stderr
    complaint = next((each for each in COMPLAINTS if each in output), "")
    if not ended.returncode and not complaint:
        return ""
    last = (output.strip().splitlines() or [""])[-1]
    return f"exit status {ended.returncode}: {last}"


def main() -> int:
    """Run the examples and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of the programs to run")
    names = parser.parse_args().names
    if not os.environ.get(SOURCE_VARIABLE):
        parser.error(f"set {SOURCE_VARIABLE} to a checkout of triton-inference-server/client")
    source = Path(os.environ[SOURCE_VARIABLE]) / "src" / "python" / "examples"
    chosen = [each for each in EXAMPLES if not names or any(name in each.title for name in names)]
    failures = 0
    for count in sorted({each.model_count for each in chosen}):
        models = REPOSITORY[:count] if count else REPOSITORY + EXTRAS
        with serving(models) as server:
            for example in (each for each in chosen if each.model_count == count):
                begin = time.monotonic()
                wrong = run(example, source, server)
                failures += bool(wrong)
                elapsed_s = time.monotonic() - begin
                print(f"{'FAIL' if wrong else 'pass'} {elapsed_s:5.1f} s  {example.title}  {wrong}")
    for program, reason in NOT_RUN.items():
        print(f"not run      {program}  {reason}")
    known = {each.program for each in EXAMPLES} | NOT_RUN.keys()
    unknown = sorted(each.name for each in source.glob("*.py") if each.name not in known)
    for program in unknown:
        print(f"UNKNOWN      {program}  add it to EXAMPLES or NOT_RUN")
    print(f"{len(chosen) - failures} of {len(chosen)} runs passed")
    return 1 if failures or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
