# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Serves the models in triton-inference-server/python_backend's examples and runs their clients.

    PYTHON_BACKEND_SRC=/path/to/python_backend python -m tests.conformance.python_backend_examples

Models and clients are those of the checkout, unmodified and in place: the repository is made of
links to them. Prints a line for each client; the exit status is 1 when one of them failed. What
needs a package that is not installed is listed with the reason.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.server import RunningServer

SOURCE_VARIABLE: Final = "PYTHON_BACKEND_SRC"
TIMEOUT_S: Final = 120.0
REDIRECTED: Final = Path(__file__).with_name("redirected.py")


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its example's README places it.

    Attributes:
        code: model.py in the examples.
        config: config.pbtxt in the examples; empty when the model completes its own.
        package: What it imports beyond numpy.
    """

    code: str
    config: str = ""
    package: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A client and the models it asks for.

    Attributes:
        client: Program in the examples.
        models: Names from `MODELS`.
    """

    client: str
    models: tuple[str, ...]


MODELS: Final = {
    "add_sub": Model("add_sub/model.py", "add_sub/config.pbtxt"),
    "nobatch_auto_complete": Model("auto_complete/nobatch_model.py"),
    "batch_auto_complete": Model("auto_complete/batch_model.py"),
    "bls_sync": Model("bls/sync_model.py", "bls/sync_config.pbtxt"),
    "bls_async": Model("bls/async_model.py", "bls/async_config.pbtxt"),
    "bls_decoupled_sync": Model("bls_decoupled/sync_model.py", "bls_decoupled/sync_config.pbtxt"),
    "bls_decoupled_async": Model(
        "bls_decoupled/async_model.py", "bls_decoupled/async_config.pbtxt"
    ),
    "custom_metrics": Model("custom_metrics/model.py", "custom_metrics/config.pbtxt"),
    "repeat_int32": Model("decoupled/repeat_model.py", "decoupled/repeat_config.pbtxt"),
    "square_int32": Model("decoupled/square_model.py", "decoupled/square_config.pbtxt"),
    "jax": Model("jax/model.py", "jax/config.pbtxt", "jax"),
    "pytorch": Model("pytorch/model.py", "pytorch/config.pbtxt", "torch"),
}
# Does in numpy what the example does in torch, so that those that call it can run.
STAND_IN: Final = {"pytorch": Model("add_sub/model.py", "pytorch/config.pbtxt")}

EXAMPLES: Final = [
    Example("add_sub/client.py", ("add_sub",)),
    Example("auto_complete/client.py", ("nobatch_auto_complete", "batch_auto_complete")),
    Example("bls/sync_client.py", ("bls_sync", "add_sub", "pytorch")),
    Example("bls/async_client.py", ("bls_async", "add_sub", "pytorch")),
    Example("bls_decoupled/sync_client.py", ("bls_decoupled_sync", "square_int32")),
    Example("bls_decoupled/async_client.py", ("bls_decoupled_async", "square_int32")),
    Example("custom_metrics/client.py", ("custom_metrics",)),
    Example("decoupled/repeat_client.py", ("repeat_int32",)),
    Example("decoupled/square_client.py", ("square_int32",)),
    Example("jax/client.py", ("jax",)),
    Example("pytorch/client.py", ("pytorch",)),
]

NOT_RUN: Final = {
    "instance_kind/client.py": "needs torchvision, and downloads a ResNet50",
    "preprocessing/client.py": "needs torchvision, a TensorRT engine and an image",
}


def is_installed(package: str) -> bool:
    """Whether a package can be imported; every program can import nothing."""
    return not package or importlib.util.find_spec(package) is not None


def write_repository(source: Path, root: Path) -> tuple[str, ...]:
    """Link the models that can run into a repository; return the names of stand-ins."""
    stand_ins = []
    for name, model in MODELS.items():
        placed = model
        if not is_installed(model.package):
            if name not in STAND_IN:
                continue
            placed = STAND_IN[name]
            stand_ins.append(name)
        (root / name / "1").mkdir(parents=True)
        (root / name / "1" / "model.py").symlink_to(source / placed.code)
        if placed.config:
            (root / name / "config.pbtxt").symlink_to(source / placed.config)
    return tuple(stand_ins)


def missing_package(example: Example) -> str:
    """Return what the model of an example's own lacks; empty when it can run."""
    package = MODELS[example.models[0]].package
    return "" if is_installed(package) else package


def run(client: Path, server: RunningServer) -> str:
    """Run a client and return what was wrong; empty when it passed."""
    addresses = [server.http, server.grpc, server.metrics]
    command = [sys.executable, str(REDIRECTED), *addresses, str(client)]
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=client.parent,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {TIMEOUT_S:.0f} s"
    if not ended.returncode and "PASS" in ended.stdout:
        return ""
    last = ((ended.stdout + ended.stderr).strip().splitlines() or [""])[-1]
    return f"exit status {ended.returncode}: {last}"


def run_all(examples: list[Example], source: Path, server: RunningServer) -> int:
    """Run examples, print a line for each, and return how many failed."""
    failures = 0
    for example in examples:
        begin = time.monotonic()
        wrong = run(source / example.client, server)
        failures += bool(wrong)
        elapsed_s = time.monotonic() - begin
        print(f"{'FAIL' if wrong else 'pass'} {elapsed_s:5.1f} s  {example.client}  {wrong}")
    return failures


def main() -> int:
    """Run the examples and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of the clients to run")
    names = parser.parse_args().names
    if not os.environ.get(SOURCE_VARIABLE):
        parser.error(
            f"set {SOURCE_VARIABLE} to a checkout of triton-inference-server/python_backend"
        )
    source = Path(os.environ[SOURCE_VARIABLE]).resolve() / "examples"
    chosen = [each for each in EXAMPLES if not names or any(name in each.client for name in names)]
    lacking = {each.client: missing_package(each) for each in chosen}
    runnable = [each for each in chosen if not lacking[each.client]]
    with tempfile.TemporaryDirectory() as root:
        stand_ins = write_repository(source, Path(root))
        server = RunningServer(Path(root))
        try:
            failures = run_all(runnable, source, server)
        finally:
            server.terminate()
    for name in stand_ins:
        print(f"stand-in     {name}  is {STAND_IN[name].code}: {MODELS[name].package} is missing")
    reasons = {client: f"{package} is not installed" for client, package in lacking.items()}
    for client, reason in (NOT_RUN | {k: reasons[k] for k in lacking if lacking[k]}).items():
        print(f"not run      {client}  {reason}")
    known = {each.client for each in EXAMPLES} | NOT_RUN.keys()
    found = {str(each.relative_to(source)) for each in source.rglob("*client.py")}
    for client in sorted(found - known):
        print(f"UNKNOWN      {client}  add it to EXAMPLES or NOT_RUN")
    print(f"{len(runnable) - failures} of {len(runnable)} clients passed")
    return 1 if failures or found - known else 0


if __name__ == "__main__":
    sys.exit(main())
