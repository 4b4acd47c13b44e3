# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `bench_stores.py` measures, each in a process of its own; prints one line of JSON.

Usage: bench_store_clients.py manta|aiobotocore|poll|tables ARGUMENT...
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench_store_server import BUCKET, FILE_KEY, StandIn

_CHUNK_BYTES: Final = 1 << 20
# Models that are read, as by their loads.
_READS: Final = 50


def memory_mib(name: str) -> float:
    """Return a line of this process's account of its memory: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def manta(port: str, size_bytes: str, root: str) -> dict[str, float]:
    """Bring the file into a node's cache, and then once more."""
    from cluster.repository.stores.source import open_source
    from deployments.model_files.cache import NodeCache
    from deployments.model_files.contracts import ModelFile, ModelFiles

    server = StandIn(int(port))
    location = f"s3://127.0.0.1:{port}/{BUCKET}/models/m"
    file = ModelFile("1/model.bin", int(size_bytes), "0123456789abcdef0123456789abcdef")
    source = open_source(location)
    source.stream(file, 0, 1, lambda _content, _offset: None)
    idle_mib = memory_mib("VmRSS")
    with NodeCache(Path(root)) as cache:
        begin_s, begin_cpu_s = time.monotonic(), time.process_time()
        cache.ensure(ModelFiles(location, (file,)), lambda _: source)
        took_s, cpu_s = time.monotonic() - begin_s, time.process_time() - begin_cpu_s
        before = server.counts()["bytes"]
        cache.ensure(ModelFiles(location, (file,)), lambda _: source)
        return {
            "seconds": took_s,
            "mib": memory_mib("VmHWM") - idle_mib,
            "cpu_seconds": cpu_s,
            "second_load_bytes": server.counts()["bytes"] - before,
        }


def aiobotocore(port: str, path: str) -> dict[str, float]:
    """Write the file as aiobotocore streams it."""
    from aiobotocore.session import get_session

    async def run(write: Callable[[bytes], object]) -> dict[str, float]:
        made = get_session().create_client("s3", endpoint_url=f"http://127.0.0.1:{port}")
        async with made as client:
            await client.head_object(Bucket=BUCKET, Key=FILE_KEY)
            begin_s, begin_cpu_s = time.monotonic(), time.process_time()
            answer = await client.get_object(Bucket=BUCKET, Key=FILE_KEY)
            async for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                write(chunk)
            return {
                "seconds": time.monotonic() - begin_s,
                "cpu_seconds": time.process_time() - begin_cpu_s,
            }

    with Path(path).open("wb", buffering=0) as file:
        return asyncio.run(run(file.write))


def _location(kind: str, port: str) -> tuple[str, dict[str, str]]:
    """Return where the listing is, and what the environment has to say of it."""
    url = f"http://127.0.0.1:{port}"
    azure = f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=eA==;BlobEndpoint={url}/a;"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "r"}
    return {
        "s3": (f"s3://127.0.0.1:{port}/{BUCKET}/models", keys),
        "gs": (f"gs://{BUCKET}/models", {"STORAGE_EMULATOR_HOST": url}),
        "as": (f"as://a/{BUCKET}/models", {"AZURE_STORAGE_CONNECTION_STRING": azure}),
    }[kind]


def poll(kind: str, port: str, times: str) -> dict[str, Any]:
    """List a repository, as each poll does."""
    from cluster.repository.remote import RemoteFileSystem
    from cluster.repository.repository import ModelRepository
    from cluster.repository.skeletons import Skeletons
    from cluster.repository.stores.opening import open_store

    location, environ = _location(kind, port)
    store = open_store(location, environ)
    # Opens the client: an empty repository has as much.
    assert not list(store.find("none"))
    filesystem = RemoteFileSystem(store, Skeletons())
    repository = ModelRepository([location], open_location=lambda _: (filesystem, store.location))
    server = StandIn(int(port))
    idle_mib = memory_mib("VmRSS")
    seconds, cpu_seconds, digests = [], [], set()
    before = server.counts()["requests"]
    for _ in range(int(times)):
        begin_s, begin_cpu_s = time.monotonic(), time.process_time()
        scan = repository.scan()
        seconds.append(time.monotonic() - begin_s)
        cpu_seconds.append(time.process_time() - begin_cpu_s)
        digests.add(tuple(scan.digests.values()))
    assert len(digests) == 1, "nothing has changed"
    store.close()
    return {
        "models": len(scan.directories),
        "requests": (server.counts()["requests"] - before) / int(times),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "mib": memory_mib("VmHWM") - idle_mib,
    }


def tables(port: str) -> dict[str, float]:
    """Have a controller answer for the index of a large repository, and read models of it."""
    from cluster.repository.repository import ModelRepository
    from cluster.repository.stores.opening import open_store
    from tests.support.controller_fakes import FakeHost, controller_of

    location, environ = _location("s3", port)
    os.environ.update(environ)
    store = open_store(location)
    assert not list(store.find("none"))
    store.close()
    idle_mib = memory_mib("VmRSS")

    async def run() -> dict[str, float]:
        controller = await controller_of(location, FakeHost(), model_control_mode="explicit")
        await controller.start()
        await controller.index()
        listed_mib = memory_mib("VmRSS")
        begin_s = time.monotonic()
        rows = await controller.index()
        index_s = time.monotonic() - begin_s
        names = [row["name"] for row in rows][:_READS]
        repository = ModelRepository([location])
        repository.read_model(names[0])
        begin_s = time.monotonic()
        for name in names:
            repository.read_model(name)
        read_s = (time.monotonic() - begin_s) / len(names)
        return {
            "models": len(rows),
            "mib": listed_mib - idle_mib,
            "peak_mib": memory_mib("VmHWM") - idle_mib,
            "index_seconds": index_s,
            "read_seconds": read_s,
        }

    return asyncio.run(run())


_CLIENTS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    each.__name__: each for each in (manta, aiobotocore, poll, tables)
}

if __name__ == "__main__":
    print(json.dumps(_CLIENTS[sys.argv[1]](*sys.argv[2:])))
