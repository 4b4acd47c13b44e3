# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What models in stores cost: the speed of a download, polls, and the controller's memory.

The stores are stand-ins on loopback (`bench_store_server.py`). Downloads of one file by Manta, curl
and aiobotocore take turns, into a folder of the same file system.

Usage: bench_stores.py [--only download|polls|tables|nodes] [--rounds 5] [--size-mib 1024]
       [--models 10000] [--files 100] [--folder /dev/shm]
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench_store_server import BUCKET, FILE_KEY, stand_in

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

_ENVIRON: Final = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_DEFAULT_REGION": "us-east-1",
    "PYTHONPATH": str(ROOT),
}
_RANGES: Final = 4
_NODES: Final = ("a", "b", "c", "d")
_NODE_MODEL_BYTES: Final = 200 << 20


def client(name: str, *arguments: object) -> Any:
    """Run a client of `bench_store_clients.py` and return what it says."""
    script = Path(__file__).with_name("bench_store_clients.py")
    command = [sys.executable, str(script), name, *map(str, arguments)]
    done = subprocess.run(
        command, env=os.environ | _ENVIRON, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def curl(url: str, folder: Path, size_bytes: int, ranges: int) -> dict[str, float]:
    """Download with one curl for each of some ranges."""
    step = size_bytes // ranges
    begin_s, before = time.monotonic(), os.times()
    running = [
        subprocess.Popen(
            [
                *("curl", "-sS", "-o", folder / f"part{index}"),
                *("-r", f"{index * step}-{(index + 1) * step - 1}", url),
            ]
        )
        for index in range(ranges)
    ]
    assert not any(each.wait() for each in running)
    took_s, after = time.monotonic() - begin_s, os.times()
    return {"seconds": took_s, "cpu_seconds": sum(after[2:4]) - sum(before[2:4])}


def random_file(folder: Path, size_bytes: int) -> Path:
    path = folder / "content"
    with path.open("wb") as file:
        for begin in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - begin)))
    return path


def sha256_of(path: Path) -> dict[str, float]:
    """Digest a file that is in the page cache: who does not verify does not do this."""
    begin_s, begin_cpu_s = time.monotonic(), time.process_time()
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")
    cpu_s = time.process_time() - begin_cpu_s
    return {"seconds": time.monotonic() - begin_s, "cpu_seconds": cpu_s}


def download(folder: Path, given: argparse.Namespace) -> None:
    size_bytes = given.size_mib << 20
    content = random_file(folder, size_bytes)
    with stand_in(content) as server:
        url = f"http://127.0.0.1:{server.port}/{BUCKET}/{FILE_KEY}"
        made = folder / "made"
        ways: dict[str, Callable[[], dict[str, float]]] = {
            "curl": lambda: curl(url, made, size_bytes, 1),
            f"curl, {_RANGES} ranges": lambda: curl(url, made, size_bytes, _RANGES),
            "aiobotocore": lambda: client("aiobotocore", server.port, made / "whole"),
            "SHA-256 alone": lambda: sha256_of(content),
            "Manta, verified": lambda: client("manta", server.port, size_bytes, made),
        }
        results: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(given.rounds):
            for name, run in ways.items():
                made.mkdir()
                results[name].append(run())
                shutil.rmtree(made)
    print(
        f"\n| {given.size_mib} MiB from S3 | s | range | MB/s | CPU s | MiB above idle |\n"
        + "|---" * 6
        + "|"
    )
    for name, runs in results.items():
        seconds = sorted(each["seconds"] for each in runs)
        median_s = statistics.median(seconds)
        cpu_s = statistics.median(each["cpu_seconds"] for each in runs)
        memory = max(each.get("mib", 0.0) for each in runs)
        print(
            f"| {name} | {median_s:.2f} | {seconds[0]:.2f} to {seconds[-1]:.2f} "
            f"| {size_bytes / median_s / 1e6:.0f} | {cpu_s:.2f} "
            f"| {f'{memory:.0f}' if memory else ''} |"
        )
    again = sum(each["second_load_bytes"] for each in results["Manta, verified"])
    print(f"second loads: {again} bytes from the store")


def polls(folder: Path, given: argparse.Namespace) -> None:
    print(
        f"\n| poll of {given.models} models with {given.files} files, unchanged | requests "
        "| s | CPU s | MiB above empty |\n" + "|---" * 5 + "|"
    )
    with stand_in(random_file(folder, 1), given.models, given.files) as server:
        for kind, name in (("s3", "S3"), ("gs", "Google"), ("as", "Azure")):
            # Of the first poll the pages are made.
            done = client("poll", kind, server.port, 4)
            seconds, cpu = (
                statistics.median(done[each][1:]) for each in ("seconds", "cpu_seconds")
            )
            print(
                f"| {name} | {done['requests']:.0f} | {seconds:.1f} | {cpu:.1f} "
                f"| {done['mib']:.0f} |",
                flush=True,
            )


def tables(folder: Path, given: argparse.Namespace) -> None:
    with stand_in(random_file(folder, 1), given.models, given.files) as server:
        done = client("tables", server.port)
    print(
        f"\ncontroller with {done['models']} models of a store: {done['mib']:.0f} MiB above none, "
        f"peak {done['peak_mib']:.0f}; index from its tables {done['index_seconds'] * 1e3:.0f} ms\n"
        f"reading a model for its load: {done['read_seconds'] * 1e3:.0f} ms"
    )


def nodes(folder: Path, _given: argparse.Namespace) -> None:
    from deployments.model_files.contracts import ModelFile, ModelFiles
    from tests.support.store_nodes import shared_rows, store_node

    os.environ.update(_ENVIRON)
    file = random_file(folder, _NODE_MODEL_BYTES)
    with ExitStack() as stack:
        server = stack.enter_context(stand_in(file))
        _, address = stack.enter_context(shared_rows())
        started = [stack.enter_context(store_node(folder / each, address)) for each in _NODES]
        for node in started:
            node.wait_ready()
        location = f"s3://127.0.0.1:{server.port}/{BUCKET}/models/m"
        weights = ModelFile("1/model.bin", _NODE_MODEL_BYTES, "0123456789abcdef0123456789abcdef")
        for name in ("first", "second"):
            before, begin_s = server.counts()["bytes"], time.monotonic()
            for node in started:
                node.begin(ModelFiles(location, (weights,)))
            answers = [node.end() for node in started]
            assert not any(isinstance(each, str) for each in answers), answers
            sent = server.counts()["bytes"] - before
            print(
                f"\n{name} load of {_NODE_MODEL_BYTES >> 20} MiB on {len(_NODES)} nodes at once: "
                f"{sent / _NODE_MODEL_BYTES:.2f} times its size from the store, "
                f"{time.monotonic() - begin_s:.1f} s"
            )


_PARTS: Final = {each.__name__: each for each in (download, polls, tables, nodes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(_PARTS), action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    given = parser.parse_args()
    for name in given.only or _PARTS:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            _PARTS[name](Path(folder), given)


if __name__ == "__main__":
    main()
