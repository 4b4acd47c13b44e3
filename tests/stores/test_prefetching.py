# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server that loads on demand from a store has files before their first use, if there is room."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families

from cluster.repository.stores.contracts import Store
from tests.stores.test_servers import CODE, CONFIG, ask
from tests.support.file_sources import random_bytes
from tests.support.object_stores import Emulator
from tests.support.server import RunningServer

_BALLAST_BYTES = 256 << 10
# Half of it has room for two of the models, all of it for all three.
_CACHE_BYTES = 5 * _BALLAST_BYTES
_GIVE_UP_S = 240.0


def put_model(store: Store, model: str, add: int) -> None:
    store.write(f"{model}/1/weights.txt", str(add).encode())
    store.write(f"{model}/1/ballast.bin", random_bytes(_BALLAST_BYTES, add))
    store.write(f"{model}/1/model.py", CODE.encode())
    store.write(f"{model}/config.pbtxt", CONFIG.encode())


def counter(server: RunningServer, name: str) -> float:
    with urlopen(f"http://{server.metrics}/metrics") as answer:
        page = answer.read().decode()
    samples = [row for family in text_string_to_metric_families(page) for row in family.samples]
    return sum(row.value for row in samples if row.name == name)


def wait_prefetched(server: RunningServer, count_bytes: int) -> None:
    until_s = time.monotonic() + _GIVE_UP_S
    while counter(server, "manta_prefetched_bytes_total") < count_bytes:
        assert time.monotonic() < until_s, "".join(server.lines)
        time.sleep(0.2)


@pytest.fixture
def served(
    emulator: Emulator, directory: str, store: Store, tmp_path: Path
) -> Iterator[RunningServer]:
    for add, model in enumerate(("a", "b", "c"), 1):
        put_model(store, model, add)
    server = RunningServer(
        emulator.location(directory),  # type: ignore[arg-type]
        "--model-control-mode=ondemand",
        "--prefetch-cache-fraction=0.5",
        f"--model-cache-max-bytes={_CACHE_BYTES}",
        f"--model-cache-directory={tmp_path / 'cache'}",
        environment=dict(os.environ) | dict(emulator.environ),
    )
    yield server
    assert server.terminate() == 0


@pytest.mark.parametrize("emulator", ["s3"], indirect=True)
def test_a_first_request_downloads_nothing_and_a_prefetch_evicts_nothing(
    served: RunningServer, emulator: Emulator, tmp_path: Path
) -> None:
    with triton_http.InferenceServerClient(served.http, network_timeout=120.0) as client:
        wait_prefetched(served, 2 * _BALLAST_BYTES)
        kept = {path.name for path in (tmp_path / "cache/trees").iterdir()}
        emulator.proxy.heal()
        assert ask(client, "a") == 2
        read = {seen.path for seen in emulator.proxy.seen if seen.method == "GET"}
        assert not [path for path in read if "/a/" in path and "ballast" in path]

        # There was no room for it ahead, and there is now that it is used.
        assert ask(client, "c") == 4
        assert kept < {path.name for path in (tmp_path / "cache/trees").iterdir()}
        assert counter(served, "manta_model_cache_evictions_total") == 0
        assert counter(served, "manta_prefetched_bytes_total") < 3 * _BALLAST_BYTES
