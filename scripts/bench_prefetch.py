# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""First answers of dormant models whose files are in a store, with and without prefetching.

The store speaks the little of S3's protocol that Manta asks for. It waits before each answer, and
all that it sends shares one rate. Each model has one large file of its own, which it maps, or reads
with --read, and answers a number from its end. Models are asked once, one after the other:

- `store`: nothing is fetched before the first request.
- `prefetched`: the first request is sent when the files of all models are in the node's cache.
- `directory`: the same models in a local directory, which is the least that a first answer takes.

Run it from the root of a checkout:

    python -m scripts.bench_prefetch --models 5 --size-mib 200
"""

import argparse
import hashlib
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from tests.support.server import RunningServer

BUCKET: Final = "bench"
# What tells the files of models apart: each begins so far after the one before, in one local file.
STEP_BYTES: Final = 4096
CONFIG: Final = """
backend: "python"
input { name: "X" data_type: TYPE_UINT8 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_UINT8 dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
"""
MODEL: Final = """
import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        folder = pathlib.Path(args["model_repository"]) / args["model_version"]
        self.weights = OPEN

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(self.weights[-1:]))])
                for _ in requests]
"""
OPENS: Final = {
    False: 'np.memmap(folder / "weights.bin", np.uint8, "r")',
    True: 'np.fromfile(folder / "weights.bin", np.uint8)',
}
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "store": ("--prefetch-cache-fraction=0",),
    "prefetched": ("--prefetch-cache-fraction=0.9",),
    "directory": (),
}
_CHUNK_BYTES: Final = 256 << 10
_GIVE_UP_S: Final = 240.0
_DATE: Final = "2026-11-23T00:00:00.000Z"
_HTTP_DATE: Final = "Mon, 23 Nov 2026 00:00:00 GMT"
_BODY: Final = json.dumps(
    {"inputs": [{"name": "X", "shape": [1], "datatype": "UINT8", "data": [0]}]}
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of the store.

    Attributes:
        content: Its bytes; of a large one None.
        begin: Where the bytes of a large one begin in the local file.
        size_bytes: How many there are.
    """

    content: bytes | None
    begin: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class First:
    """What a model's first request took.

    Attributes:
        took_s: From the request to its answer.
        sent_bytes: What the store has sent meanwhile.
        private_bytes: What the instance's process then has for itself.
    """

    took_s: float
    sent_bytes: int
    private_bytes: int


class SlowStore(ThreadingHTTPServer):
    """The store.

    Args:
        file: The local file with the bytes of all large files.
        files: By key.
        rate_bytes: What it sends a second, over all connections.
        latency_s: What it waits before each answer.
    """

    daemon_threads = True

    def __init__(
        self, file: Path, files: Mapping[str, Stored], rate_bytes: float, latency_s: float
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.descriptor = os.open(file, os.O_RDONLY)
        self.files = files
        self.latency_s = latency_s
        self.sent_bytes = 0
        self._rate_bytes = rate_bytes
        self._lock = threading.Lock()
        self._free_s = 0.0

    def wait_turn(self, count_bytes: int) -> None:
        """Wait until so many bytes may be sent."""
        with self._lock:
            self.sent_bytes += count_bytes
            now_s = time.monotonic()
            self._free_s = max(now_s, self._free_s) + count_bytes / self._rate_bytes
            wait_s = self._free_s - now_s
        time.sleep(wait_s)

    def handle_error(self, *_: Any) -> None:
        """Say nothing: clients go when they have what they want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of a small answer would else wait for each other.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: SlowStore

    def do_HEAD(self) -> None:
        self._serve(is_head=True)

    def do_GET(self) -> None:
        self._serve(is_head=False)

    def _serve(self, *, is_head: bool) -> None:
        time.sleep(self.server.latency_s)
        at = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(at.query).items()}
        if "list-type" in asked:
            self._answer(_listing(self.server.files, asked.get("prefix", "")))
            return
        key = at.path.removeprefix(f"/{BUCKET}/")
        stored = self.server.files.get(key)
        if stored is None:
            self._answer(b"<Error><Code>NoSuchKey</Code></Error>", 404)
        else:
            self._send(key, stored, is_head=is_head)

    def _send(self, key: str, stored: Stored, *, is_head: bool) -> None:
        begin, end, headers = 0, stored.size_bytes, {"ETag": _etag(key)}
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or end - 1) + 1, end)
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{stored.size_bytes}"
        self._head(206 if asked else 200, end - begin, headers)
        if is_head:
            return
        if stored.content is not None:
            self.server.wait_turn(end - begin)
            self.wfile.write(stored.content[begin:end])
            return
        begin, end = begin + stored.begin, end + stored.begin
        while begin < end:
            count = min(end - begin, _CHUNK_BYTES)
            self.server.wait_turn(count)
            while count:
                sent = os.sendfile(self.connection.fileno(), self.server.descriptor, begin, count)
                begin, count = begin + sent, count - sent

    def _answer(self, content: bytes, status: int = 200) -> None:
        self.server.wait_turn(len(content))
        self._head(status, len(content), {"Content-Type": "application/xml"})
        self.wfile.write(content)

    def _head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": _HTTP_DATE, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _etag(key: str) -> str:
    return f'"{hashlib.sha256(key.encode()).hexdigest()[:32]}"'


def _listing(files: Mapping[str, Stored], prefix: str) -> bytes:
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>{_DATE}</LastModified>"
        f"<ETag>{escape(_etag(key))}</ETag><Size>{files[key].size_bytes}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for key in sorted(files)
        if key.startswith(prefix)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
        f"<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{contents}"
        "</ListBucketResult>"
    ).encode()


class Bench:
    """The models, and where they are.

    Args:
        folder: For all files; some file system with room for three times what all models are.
        given: What the command line says.
    """

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        self._folder = folder
        self._given = given
        self._names = [f"m{at}" for at in range(given.models)]
        self._size_bytes = given.size_mib << 20
        self._code = MODEL.replace("OPEN", OPENS[given.read]).encode()
        # Kept small enough to be in the page cache from here on, as a store's bytes are on the way.
        self._content = np.random.default_rng(14).bytes(
            self._size_bytes + STEP_BYTES * given.models
        )
        (folder / "content").write_bytes(self._content)

    def run(self, way: str) -> list[First]:
        """Start a server and ask each model once."""
        cache = self._folder / f"cache-{way}"
        flags = [
            "--model-control-mode=ondemand",
            *WAYS[way],
            f"--model-cache-directory={cache}",
            f"--model-cache-max-bytes={2 * self._size_bytes * len(self._names)}",
        ]
        with self._store() as store:
            repository, environment = self._repository(way, store)
            server = RunningServer(repository, *flags, environment=environment)
            try:
                if way == "prefetched":
                    self._wait_prefetched(server)
                # What each node fetches and starts for itself is over then.
                time.sleep(self._given.pause_s)
                return [self._first(server, store, name) for name in self._names]
            finally:
                server.terminate()

    def _repository(self, way: str, store: SlowStore) -> tuple[Any, dict[str, str]]:
        environment = dict(os.environ)
        if way == "directory":
            return self._written(), environment
        environment |= {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        return f"s3://127.0.0.1:{store.server_address[1]}/{BUCKET}", environment

    def _written(self) -> Path:
        repository = self._folder / "models"
        for at, name in enumerate(self._names):
            version = repository / name / "1"
            version.mkdir(parents=True)
            (repository / name / "config.pbtxt").write_text(CONFIG)
            (version / "model.py").write_bytes(self._code)
            begin = at * STEP_BYTES
            (version / "weights.bin").write_bytes(self._content[begin : begin + self._size_bytes])
        return repository

    @contextmanager
    def _store(self) -> Iterator[SlowStore]:
        files: dict[str, Stored] = {}
        for at, name in enumerate(self._names):
            config = CONFIG.encode()
            files[f"{name}/config.pbtxt"] = Stored(config, 0, len(config))
            files[f"{name}/1/model.py"] = Stored(self._code, 0, len(self._code))
            files[f"{name}/1/weights.bin"] = Stored(None, at * STEP_BYTES, self._size_bytes)
        rate_bytes, latency_s = 1e6 * self._given.rate_mb, 1e-3 * self._given.latency_ms
        store = SlowStore(self._folder / "content", files, rate_bytes, latency_s)
        threading.Thread(target=store.serve_forever, daemon=True).start()
        try:
            yield store
        finally:
            store.shutdown()
            store.server_close()
            os.close(store.descriptor)

    def _wait_prefetched(self, server: RunningServer) -> None:
        began_s = time.monotonic()
        wanted = self._size_bytes * len(self._names)
        while counter(server, "manta_prefetched_bytes_total") < wanted:
            if time.monotonic() > began_s + _GIVE_UP_S:
                raise SystemExit("".join(server.lines))
            time.sleep(0.5)
        print(f"all files were prefetched within {time.monotonic() - began_s:.1f} s")

    def _first(self, server: RunningServer, store: SlowStore, name: str) -> First:
        before_bytes = store.sent_bytes
        host, _, port = server.http.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=_GIVE_UP_S)
        began_s = time.monotonic()
        connection.request("POST", f"/v2/models/{name}/infer", _BODY)
        answer = connection.getresponse()
        text = answer.read()
        took_s = time.monotonic() - began_s
        connection.close()
        (output,) = json.loads(text)["outputs"]
        last = STEP_BYTES * self._names.index(name) + self._size_bytes - 1
        if output["data"] != [self._content[last]]:
            raise SystemExit(f"{name} has answered {text.decode()}")
        sent_bytes = store.sent_bytes - before_bytes
        # The next one has its idle worker then.
        time.sleep(self._given.pause_s)
        return First(took_s, sent_bytes, private_bytes(server, name))


def counter(server: RunningServer, name: str) -> float:
    """Return a metric's sum."""
    with urlopen(f"http://{server.metrics}/metrics") as answer:
        page = answer.read().decode()
    samples = [row for family in text_string_to_metric_families(page) for row in family.samples]
    return float(sum(row.value for row in samples if row.name == name))


def private_bytes(server: RunningServer, name: str) -> int:
    """Return what a model's instance has in memory for itself."""
    titles = (f"ray::{name}/", f"manta: {name}/")
    (process,) = [each for title in titles for each in server.processes(title)]
    rows = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (row,) = [row for row in rows if row.startswith("RssAnon:")]
    return int(row.split()[1]) << 10


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--size-mib", type=int, default=200, help="of each model's large file")
    parser.add_argument("--rate-mb", type=float, default=100.0, help="what the store sends [MB/s]")
    parser.add_argument("--latency-ms", type=float, default=20.0, help="before each answer")
    parser.add_argument("--pause-s", type=float, default=6.0, help="between two models")
    parser.add_argument("--read", action="store_true", help="models read their file")
    parser.add_argument("--only", choices=WAYS, action="append")
    parser.add_argument("--folder", help="where files are made; default the system's for such")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="manta-prefetch-", dir=given.folder) as folder:
        bench = Bench(Path(folder), given)
        for way in given.only or WAYS:
            found = bench.run(way)
            took = [each.took_s for each in found]
            print(
                f"{way:12} first answer after {statistics.median(took):.2f} s in the median,"
                f" {min(took):.2f} to {max(took):.2f} s;"
                f" {sum(each.sent_bytes for each in found) / 1e6:.1f} MB from the store meanwhile;"
                f" instances have {max(each.private_bytes for each in found) / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
