# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gzip
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.unpack import AGENT
from cluster.repository.trees import files_below
from tests.support.examples import examples

Rows = Iterable[tuple[str, bytes]]
PARTS = st.sampled_from(["a", "b", "..", ".", "", "/", "\\", "C:", "1", "é", "x" * 300])
NAMES = st.lists(PARTS, min_size=1, max_size=5).map("/".join)


def tar(rows: Rows, mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in rows:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def gzipped(rows: Rows) -> bytes:
    return tar(rows, "w:gz")


def zipped(rows: Rows, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in rows:
            archive.writestr(name or zipfile.ZipInfo(name), content)
    return made.getvalue()


def special(kind: bytes, target: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("entry")
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return made.getvalue()


KINDS: dict[str, Callable[[Rows], bytes]] = {
    "model.tar": tar,
    "model.tar.gz": gzipped,
    "model.tgz": gzipped,
    "model.zip": zipped,
}


def model_with(
    folder: Path, content: bytes, name: str = "model.tar", **parameters: str
) -> AgentModel:
    directory = folder / "m"
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "1" / name).write_bytes(content)
    return AgentModel("m", directory, parameters)


def unpack(folder: Path, content: bytes, name: str = "model.tar", **parameters: str) -> set[str]:
    model = model_with(folder, content, name, **parameters)
    AGENT.act(Action.LOAD, model)
    return set(files_below(model.directory))


def refusal(folder: Path, content: bytes, name: str = "model.tar", **parameters: str) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        unpack(folder, content, name, **parameters)
    return caught.value.message


@pytest.mark.parametrize("name", KINDS)
def test_an_archive_becomes_its_files(tmp_path: Path, name: str):
    rows = [("model.onnx", b"weights"), ("./data/vocabulary", b"words")]
    assert unpack(tmp_path, KINDS[name](rows), name) == {"1/model.onnx", "1/data/vocabulary"}
    assert (tmp_path / "m" / "1" / "data" / "vocabulary").read_bytes() == b"words"


def test_directories_and_modes_of_owners_come_along(tmp_path: Path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind, mode in ((".", b"5", 0o755), ("empty", b"5", 0o000), ("run", b"0", 0o6777)):
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, mode
            archive.addfile(info)
    assert unpack(tmp_path, made.getvalue()) == {"1/run"}
    assert (tmp_path / "m" / "1" / "empty").is_dir()
    assert (tmp_path / "m" / "1" / "run").stat().st_mode & 0o7777 == 0o700


def test_several_archives_are_unpacked_by_pattern(tmp_path: Path):
    model = model_with(tmp_path, tar([("a", b"")]), "one.tar")
    model = model_with(tmp_path, zipped([("b", b"")]), "two.zip", files="1/*.tar, 1/*.zip")
    AGENT.act(Action.LOAD, model)
    assert set(files_below(model.directory)) == {"1/a", "1/b"}


@settings(max_examples=examples(40))
@given(st.lists(NAMES, max_size=4, unique=True), st.sampled_from(sorted(KINDS)))
@example(["a", "b/1"], "model.tar")
@example(["a", "b/1"], "model.zip")
def test_nothing_is_ever_written_outside_of_the_archives_directory(names: list[str], kind: str):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        content = KINDS[kind]([(name, b"x") for name in names])
        try:
            unpack(root, content, kind)
        except InvalidArgumentError:
            assert names != ["a", "b/1"]
        assert {path.parts[0] for path in map(Path, files_below(root))} <= {"m"}
        assert {path.parts[1] for path in map(Path, files_below(root))} <= {"1"}


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "a\\..\\out", "a//b"])
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_lead_out_are_refused(tmp_path: Path, kind: str, name: str):
    assert "leads out of the model's directory" in refusal(
        tmp_path, KINDS[kind]([(name, b"x")]), kind
    )


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "device"),
    ],
)
def test_links_and_devices_of_a_tar_are_refused(tmp_path: Path, kind: bytes, what: str):
    assert f"entry 'entry' is a {what}" in refusal(tmp_path, special(kind, "/etc/passwd"))


@pytest.mark.parametrize(("mode", "what"), [(0o120777, "link"), (0o020644, "device")])
def test_links_and_devices_of_a_zip_are_refused(tmp_path: Path, mode: int, what: str):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        info = zipfile.ZipInfo("entry")
        info.external_attr = mode << 16
        archive.writestr(info, "/etc/passwd")
    assert f"entry 'entry' is a {what}" in refusal(tmp_path, made.getvalue(), "model.zip")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_there_already_is_not_replaced(tmp_path: Path, kind: str):
    rows = [("model.onnx", b"one"), ("model.onnx", b"two")]
    if kind == "model.zip":
        with pytest.warns(UserWarning, match="Duplicate name"):
            content = zipped(rows)
    else:
        content = KINDS[kind](rows)
    assert "'model.onnx' is there already" in refusal(tmp_path, content, kind)


def test_a_file_cannot_be_a_directory_too(tmp_path: Path):
    assert "is there already" in refusal(tmp_path, tar([("a", b""), ("a/b", b"")]))


@pytest.mark.parametrize("kind", ["model.tar.gz", "model.zip"])
def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path, kind: str):
    content = KINDS[kind]([("zeros", bytes(4 << 20))])
    assert len(content) < 1 << 15
    told = refusal(tmp_path, content, kind)
    assert "1048576 bytes come out" in told
    assert "'max_ratio'" in told
    written = sum(p.stat().st_size for p in (tmp_path / "m" / "1").iterdir())
    assert written < 2 << 20


def test_a_ratio_may_be_raised(tmp_path: Path):
    content = gzipped([("zeros", bytes(4 << 20))])
    assert unpack(tmp_path, content, max_ratio="2000") == {"1/zeros"}


def test_bounds_hold_for_all_archives_together(tmp_path: Path):
    model_with(tmp_path, tar([("a", b"x" * 60)]), "one.tar")
    told = refusal(tmp_path, tar([("b", b"x" * 60)]), "two.tar", max_bytes="100")
    assert "more than 100 bytes" in told
    assert "'max_bytes'" in told


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_bounded(tmp_path: Path, kind: str):
    content = KINDS[kind]([(str(number), b"") for number in range(11)])
    assert "more than 10 entries" in refusal(tmp_path, content, kind, max_files="10")


def test_headers_that_would_fill_the_memory_are_refused(tmp_path: Path):
    made = io.BytesIO()
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 2 << 20
    made.write(info.tobuf())
    made.write(bytes(2 << 20))
    assert "headers are too large" in refusal(tmp_path, gzip.compress(made.getvalue(), 1))


ROWS = [("a", b"weights" * 40), ("b/c", b"words")]
# Made once: an archive has the time in it.
WHOLE = {"model.zip": zipped(ROWS), "model.tar.gz": gzipped(ROWS)}


@settings(max_examples=examples(40))
@given(st.binary(max_size=600), st.sampled_from(sorted(KINDS)))
@example(WHOLE["model.zip"], "model.zip")
@example(WHOLE["model.tar.gz"], "model.tar.gz")
def test_any_bytes_are_unpacked_or_refused(content: bytes, kind: str):
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(Path(folder), content, kind)
        except InvalidArgumentError:
            assert content not in WHOLE.values()


@settings(max_examples=examples(40))
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**31), st.integers(1, 255))
# No change leaves it whole.
@example("model.tar", 0, 0)
@example("model.zip", 0, 0)
def test_a_damaged_archive_is_unpacked_or_refused(kind: str, place: int, change: int):
    content = bytearray(KINDS[kind](ROWS))
    content[place % len(content)] ^= change
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(Path(folder), bytes(content), kind)
        except InvalidArgumentError:
            assert change


def test_other_compressions_of_a_zip_are_refused(tmp_path: Path):
    content = zipped([("a", b"x")], zipfile.ZIP_BZIP2)
    assert "expected none or deflate" in refusal(tmp_path, content, "model.zip")


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "9" * 30])
def test_bounds_are_positive_numbers(tmp_path: Path, value: str):
    assert "expected a positive number" in refusal(tmp_path, tar([]), max_files=value)


def test_an_unknown_parameter_is_refused(tmp_path: Path):
    assert "has no parameter 'file', expected one of files" in refusal(tmp_path, b"", file="x")


def test_a_model_without_an_archive_is_refused(tmp_path: Path):
    assert "finds no file that matches" in refusal(tmp_path, b"", "model.onnx")
