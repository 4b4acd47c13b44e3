# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a poll of 10,000 models with 100 files each costs the controller, with a store in memory.

python scripts/measure_poll.py [MODELS] [FILES]
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from cluster.repository.remote import RemoteFileSystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.local import LocalStore

_CONFIG = b'backend: "python" max_batch_size: 8'


class SyntheticStore(LocalStore):
    """A store of models that exist in its listing only."""

    def __init__(self, models: int, files: int) -> None:
        super().__init__("/nowhere")
        self.location = "s3://bucket/models"
        self.listings = 0
        self._models, self._files = models, files

    def find(self, path: str = "") -> Iterator[StoredFile]:
        self.listings += 1
        names = [path] if path else [f"model_{index:05d}" for index in range(self._models)]
        for name in names:
            for index in range(self._files - 1):
                yield StoredFile(
                    f"{name}/1/file_{index:05d}.bin", index, f"{name}{index:032x}"[:32]
                )
            yield StoredFile(f"{name}/config.pbtxt", len(_CONFIG), "c" * 32)

    def read(self, path: str, *_: object, **__: object) -> bytes:
        return _CONFIG


def main() -> None:
    models, files = (int(each) for each in (*sys.argv[1:], *("10000", "100")[len(sys.argv) - 1 :]))
    store = SyntheticStore(models, files)
    filesystem = RemoteFileSystem(store, Skeletons())
    repository = ModelRepository(
        [store.location], open_location=lambda _: (filesystem, store.location)
    )
    process = psutil.Process()
    begin_bytes = process.memory_info().rss
    peak_bytes = begin_bytes
    for round_ in range(3):
        begin_s = time.monotonic()
        scan = repository.scan()
        took_s = time.monotonic() - begin_s
        peak_bytes = max(peak_bytes, process.memory_info().rss)
        print(
            f"poll {round_}: {len(scan.directories)} models, {took_s:.1f} s, "
            f"{(peak_bytes - begin_bytes) / 1e6:.0f} MB above empty"
        )
    begin_s = time.monotonic()
    model = repository.read_model("model_00000")
    print(f"read of one model: {(time.monotonic() - begin_s) * 1e3:.0f} ms, {model.versions}")
    kept = [repository.read_model(name).files for name in list(scan.directories)[:500]]
    used_bytes = process.memory_info().rss - peak_bytes
    print(f"files of {len(kept)} loaded models: {used_bytes / 1e6:.0f} MB")
    print(
        Path("/proc/self/status").read_text().split("VmHWM:")[1].split("\n")[0].strip(), "at most"
    )


if __name__ == "__main__":
    main()
