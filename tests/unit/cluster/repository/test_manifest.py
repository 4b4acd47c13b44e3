# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.repository import manifest as manifests
from cluster.repository.manifest import (
    MANIFEST_FILE,
    Manifest,
    ManifestFile,
    make_manifest,
    parse_manifest,
    read_manifest,
    render_manifest,
    verify_manifest,
    version_directories,
)

PATHS = st.text(min_size=1, max_size=20).filter(
    lambda path: manifests.is_plain_path(path) and path not in {"manifest.json", "manifest.sig"}
)
FILES = st.builds(
    ManifestFile,
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 2**63 - 1),
)


@pytest.fixture
def version(tmp_path: Path) -> Path:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "model.onnx").write_bytes(b"weights")
    (tmp_path / "tokens" / "vocabulary").write_bytes(b"words")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "model.pyc").write_bytes(b"cached")
    return tmp_path


def refusal(version: Path, manifest: Manifest) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        verify_manifest(version, manifest, "version 1 of model 'm'")
    return caught.value.message


@given(st.dictionaries(PATHS, FILES, max_size=5))
def test_a_manifest_is_read_as_it_was_written(files: dict[str, ManifestFile]):
    assert parse_manifest(render_manifest(Manifest(files)), "x").files == files


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_manifest_is_refused(content: bytes | str):
    data = content.encode() if isinstance(content, str) else content
    with pytest.raises(InvalidArgumentError, match="manifest of m"):
        parse_manifest(data, "of m")


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\\b", "a\0b"]
)
def test_a_path_that_leads_out_is_refused(path: str):
    content = json.dumps({"files": {path: {"sha256": "0" * 64, "size_bytes": 1}}})
    with pytest.raises(InvalidArgumentError, match="expected a path below its directory"):
        parse_manifest(content.encode(), "of m")


@pytest.mark.parametrize(
    "row", [{"sha256": "0" * 63, "size_bytes": 1}, {"sha256": "A" * 64, "size_bytes": 1}]
)
def test_a_digest_that_is_none_is_refused(row: dict[str, object]):
    with pytest.raises(InvalidArgumentError, match="64 lower-case hex digits"):
        parse_manifest(json.dumps({"files": {"a": row}}).encode(), "of m")


def test_manifests_are_bounded(monkeypatch: pytest.MonkeyPatch):
    content = render_manifest(Manifest({str(n): ManifestFile("0" * 64, 1) for n in range(3)}))
    monkeypatch.setattr(manifests, "MAX_FILES", 2)
    with pytest.raises(InvalidArgumentError, match="3 files, at most 2"):
        parse_manifest(content, "of m")
    monkeypatch.setattr(manifests, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(InvalidArgumentError, match="at most 10"):
        parse_manifest(content, "of m")


def test_a_manifest_made_of_a_directory_fits_it(version: Path):
    made = make_manifest(version)
    assert set(made.files) == {"model.onnx", "tokens/vocabulary"}
    assert made.files["model.onnx"].size_bytes == 7
    (version / MANIFEST_FILE).write_bytes(render_manifest(made))
    read = read_manifest(version, "m")
    assert read == made
    verify_manifest(version, made, "m")
    assert make_manifest(version) == made


def test_a_directory_without_a_manifest_has_none(version: Path):
    assert read_manifest(version, "m") is None


def test_a_changed_file_is_told(version: Path):
    made = make_manifest(version)
    (version / "model.onnx").write_bytes(b"WEIGHTS")
    told = refusal(version, made)
    assert told.startswith("Mismatched SHA256 hash for file model.onnx of version 1 of model 'm'")


def test_a_file_of_another_size_is_told_before_anything_is_read(version: Path):
    made = make_manifest(version)
    (version / "model.onnx").write_bytes(b"more weights")
    assert "'model.onnx' of version 1 of model 'm' has 12 bytes, the manifest says 7" in refusal(
        version, made
    )


def test_a_missing_and_an_added_file_are_told(version: Path):
    made = make_manifest(version)
    (version / "extra").write_bytes(b"")
    assert "file 'extra' of version 1 of model 'm' is there and not in" in refusal(version, made)
    (version / "model.onnx").unlink()
    assert "file 'model.onnx' of version 1 of model 'm' is in the manifest" in refusal(
        version, made
    )


def test_a_name_that_no_json_can_hold_is_refused(version: Path):
    (version / "bad\udcff").write_bytes(b"")
    with pytest.raises(TritonError, match="no plain UTF-8 path"):
        make_manifest(version)


def test_a_models_manifest_leaves_the_versions_files_to_theirs(tmp_path: Path):
    for number in ("2", "10"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "model.py").write_text("x")
    (tmp_path / "config.pbtxt").write_text("")
    (tmp_path / "7").write_text("a file, not a version")
    assert set(make_manifest(tmp_path, versions_apart=True).files) == {"7", "config.pbtxt"}
    assert [found.name for found in version_directories(tmp_path)] == ["2", "10"]
