# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The process of a node that fetches model files."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from backends.api.errors import UnavailableError
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.model_files.registry import MemoryRegistry
from deployments.model_files.statistics_file import read_statistics
from tests.support.file_sources import DirectorySource, listed, write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(tmp_path / "model", {"config.pbtxt": b"name: 'm'", "1/model.onnx": b"weights"})
    return tmp_path / "model"


def node_files(cache: Path, model: Path) -> NodeFiles:
    source = DirectorySource(model)
    return NodeFiles(
        str(cache), 0, b"secret", PeerAddress("127.0.0.1"), MemoryRegistry(), source, "n1"
    )


def test_counters_are_told_in_the_caches_folder_when_files_are_there(
    model: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with closing(node_files(cache, model)) as files:
        for _ in range(2):
            files.ensure("m", listed(model))
            assert read_statistics(cache, "n1") == files.statistics()
    seen = read_statistics(cache, "n1")
    assert seen is not None
    assert (seen.misses, seen.from_store_bytes, seen.from_peers_bytes) == (2, 16, 0)
    assert seen.hits >= 2


def test_counters_are_told_when_files_cannot_be_had(model: Path, tmp_path: Path) -> None:
    wanted = listed(model)
    write(model, {"1/model.onnx": b"another upload"})
    cache = tmp_path / "cache"
    with closing(node_files(cache, model)) as files:
        with pytest.raises(UnavailableError, match="changed while they were downloaded"):
            files.ensure("m", wanted)
        assert read_statistics(cache, "n1") == files.statistics()
        assert files.statistics().seconds > 0


def test_a_load_does_not_fail_because_counters_cannot_be_written(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "cache"
    with closing(node_files(cache, model)) as files:
        shutil.rmtree(cache / "statistics")
        files.ensure("m", listed(model))
    assert "the counters of the node's cache cannot be written" in caplog.text
