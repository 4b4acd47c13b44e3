# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.captures.making import read_config
from deployments.captures.records import CaptureRecord, from_line
from deployments.captures.rules import CaptureLimits, Redaction
from deployments.captures.stores import open_store
from deployments.captures.writing import CaptureWriter
from tests.support.loopback_server import LoopbackServer, QuietHandler

LIMITS = CaptureLimits()


def _record(name: str = "one") -> CaptureRecord:
    record = CaptureRecord(name, 1.0, "m", "1")
    inputs = [
        tensor_from_numpy("X", np.array([1, 2], np.int32)),
        tensor_from_numpy("T", np.array([b"a"], dtype=object)),
    ]
    record.keep_request(InferenceRequest("m", inputs=inputs), Redaction(), LIMITS)
    output = tensor_from_numpy("Y", np.array([0.5], np.float32))
    record.keep_response(InferenceResponse("m", "1", outputs=[output]), Redaction(), LIMITS)
    return record


class Store:
    """Keeps records, once it may."""

    def __init__(self) -> None:
        self.records: list[CaptureRecord] = []
        self.may_write = threading.Event()
        self.began = threading.Event()

    def write(self, record: CaptureRecord) -> None:
        self.began.set()
        assert self.may_write.wait(30)
        self.records.append(record)

    def rotate(self, *, is_last: bool = False) -> None:
        if is_last and not self.records:
            raise OSError("nothing to keep")


def test_records_beyond_the_bound_are_dropped_and_counted() -> None:
    store = Store()
    writer = CaptureWriter(lambda: store, CaptureLimits(queue_records=2))
    assert writer.offer(_record())
    assert store.began.wait(30)
    taken = [writer.offer(_record()) for _ in range(5)]
    assert taken == [True, False, False, False, False]
    store.may_write.set()
    assert writer.close(30)
    assert (writer.counters.written, writer.counters.dropped) == (2, 4)
    assert b'manta_capture_records_total{outcome="dropped"} 4\n' in writer.render()


def test_a_store_that_cannot_be_opened_costs_records_alone() -> None:
    def fail() -> Store:
        raise OSError("no such place")

    writer = CaptureWriter(fail, LIMITS)
    assert writer.offer(_record())
    assert writer.close(30)
    assert writer.counters.failed == 1


def test_a_folder_has_whole_files_of_records_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    writer = CaptureWriter(lambda: open_store(str(folder), LIMITS, "p"), LIMITS)
    for name in "abc":
        writer.offer(_record(name))
    assert writer.close(30)
    [file] = folder.iterdir()
    assert file.name == "p-000001.jsonl"
    assert file.stat().st_mode & 0o077 == 0
    assert [from_line(line).id for line in file.read_bytes().splitlines()] == ["a", "b", "c"]


def test_a_file_ends_at_its_size(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}", CaptureLimits(rotate_bytes=1), "p")
    for name in "ab":
        store.write(_record(name))
        store.rotate()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["p-000001.jsonl", "p-000002.jsonl"]


def test_objects_are_written_whole() -> None:
    store = open_store("memory://captures/x", LIMITS, "p")
    store.write(_record("a"))
    store.rotate()
    filesystem = fsspec.filesystem("memory")
    assert not filesystem.find("/captures/x")
    store.write(_record("b"))
    store.rotate(is_last=True)
    [name] = filesystem.find("/captures/x")
    lines = filesystem.cat_file(name).splitlines()
    assert [from_line(line).id for line in lines] == ["a", "b"]


def test_a_receiver_of_cloud_events_gets_both_halves() -> None:
    posted: list[tuple[dict[str, str], dict[str, object]]] = []

    class Receiver(QuietHandler):
        def respond(self) -> None:
            posted.append((dict(self.headers), json.loads(self.body())))
            self.answer(200)

    with LoopbackServer(Receiver) as server:
        open_store(f"{server.url}/", LIMITS, "p").write(_record())
    kinds = [headers["Ce-Type"].rpartition(".")[2] for headers, _ in posted]
    assert kinds == ["request", "response"]
    asked = posted[0][1]["inputs"]
    assert [each["data"] for each in asked] == [[1, 2], ["a"]]  # type: ignore[attr-defined]
    assert posted[0][0]["Ce-Inferenceservicename"] == "m"


def test_a_store_of_no_known_kind_is_refused_without_its_secrets() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_store("what://user:secret@host/x", LIMITS, "p")
    assert "secret" not in caught.value.message


def test_a_config_that_is_wrong_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "captures.yaml"
    path.write_text("store: /x\ncaptures: [{models: a, fraction: 3}]\n")
    with pytest.raises(InvalidArgumentError, match=r"captures\.yaml': captures\[0\]\.fraction"):
        read_config(str(path))
    with pytest.raises(InvalidArgumentError, match="missing"):
        read_config(str(tmp_path / "missing"))
