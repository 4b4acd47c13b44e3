# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of `manta model`, over a directory."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cli import main
from cluster.repository.repository import ModelRepository
from tests.support.broken_repositories import COMPLETING, PYTHON, onnx_file
from tests.support.server import ROOT


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "repository"
    monkeypatch.setenv("MANTA_MODEL_REPOSITORY", str(path))
    (tmp_path / "net.onnx").write_bytes(onnx_file())
    (tmp_path / "other.onnx").write_bytes(onnx_file(batched=True))
    (tmp_path / "code.py").write_bytes(PYTHON)
    monkeypatch.chdir(tmp_path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["model", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_file_becomes_version_1_of_a_model_that_loads(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "add", "net.onnx", "--name", "net") == (
        0,
        f"found an ONNX model\npublished {repository}/net/1: 1 files, {len(onnx_file())} B\n",
        "",
    )
    assert tree(repository) == ["net/1/manifest.json", "net/1/model.onnx"]
    assert main(["check", str(repository)]) == 0


def test_the_manifest_has_size_and_digest_of_each_file(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "code.py", "--name", "m")
    manifest = json.loads((repository / "m/1/manifest.json").read_text())
    assert list(manifest["files"]) == ["model.py"]
    assert manifest["files"]["model.py"]["size_bytes"] == len(PYTHON)
    assert len(manifest["files"]["model.py"]["sha256"]) == 64


def test_a_config_that_has_to_be_filled_in_says_so_and_is_kept_from_then_on(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "add", "code.py", "--name", "m")
    assert out.endswith("note: fill in inputs and outputs in m/config.pbtxt\n")
    (repository / "m/config.pbtxt").write_text('backend: "python"\n')
    _, out, _ = run(capsys, "add", "code.py", "--name", "m", "--next")
    assert out.endswith("note: m/config.pbtxt is left as it is\n")
    assert (repository / "m/config.pbtxt").read_text() == 'backend: "python"\n'


def test_a_dry_run_says_what_it_would_write_and_writes_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "add", "net.onnx", "--name", "net", "--version", "7", "--dry-run")
    assert code == 0
    assert out.splitlines()[1:] == [
        f"would write {repository}/net/7/model.onnx",
        f"would write {repository}/net/7/manifest.json",
    ]
    assert not repository.exists()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "say which one this is with --version or --next"),
        (("--version", "1"), "has a version 1; use --next"),
        (("--version", "0"), "must be from 1"),
    ],
)
def test_a_version_is_never_replaced(
    repository: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], why: str
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    code, out, err = run(capsys, "add", "other.onnx", "--name", "net", *flags)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert why in err
    assert (repository / "net/1/model.onnx").read_bytes() == onnx_file()


@given(name=st.text(max_size=20))
def test_a_name_is_refused_or_is_that_of_a_model(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    root = tmp_path_factory.mktemp("names")
    model, repository = root / "net.onnx", root / "repository"
    model.write_bytes(onnx_file())
    code = main(["model", "add", str(model), f"--name={name}", "--to", str(repository)])
    published = list(root.rglob("model.onnx"))
    if code:
        assert not published
    else:
        assert published == [repository / name / "1" / "model.onnx"]
        assert list(ModelRepository([str(repository)]).scan().directories) == [name]


def test_a_model_of_a_repository_keeps_its_config_and_labels(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path("source")
    for version in ("2", "3"):
        (source / version).mkdir(parents=True)
        (source / version / "model.onnx").write_bytes(onnx_file(batched=version == "3"))
    (source / "config.pbtxt").write_text("max_batch_size: 2\n")
    (source / "labels.txt").write_text("a\nb\n")
    code, _, _ = run(capsys, "add", "source", "--name", "net")
    assert code == 0
    assert tree(repository / "net") == [
        "1/manifest.json",
        "1/model.onnx",
        "config.pbtxt",
        "labels.txt",
    ]
    assert (repository / "net/1/model.onnx").read_bytes() == onnx_file(batched=True)


def test_links_to_folders_are_followed_and_files_named_as_manifests_further_down_are_kept(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, released = Path("source"), Path("releases/7")
    (released / "assets").mkdir(parents=True)
    (released / "model.onnx").write_bytes(onnx_file())
    (released / "manifest.json").write_text("of the repository it comes from")
    (released / "assets" / "manifest.json").write_text("the model's own")
    source.mkdir()
    (source / "1").symlink_to(released.absolute())
    assert run(capsys, "add", "source", "--name", "net")[0] == 0
    assert tree(repository / "net/1") == ["assets/manifest.json", "manifest.json", "model.onnx"]
    assert (repository / "net/1/assets/manifest.json").read_text() == "the model's own"
    assert "the repository" not in (repository / "net/1/manifest.json").read_text()


def test_a_version_without_files_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("source/1/below").mkdir(parents=True)
    code, _, text = run(capsys, "add", "source", "--name", "net")
    assert code == 1
    assert "version 1 of the model in 'source' has no files" in text
    assert not (repository / "net").exists()


def test_versions_are_listed_with_size_backend_and_manifest(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    run(capsys, "add", "net.onnx", "--name", "net", "--next")
    run(capsys, "add", "code.py", "--name", "code")
    (repository / "net/2/model.onnx").write_bytes(b"shorter")
    (repository / "code/1/manifest.json").unlink()
    (repository / "bare").mkdir()
    (repository / "bare/config.pbtxt").write_text("")
    _, out, _ = run(capsys, "ls")
    rows = [line.split() for line in out.splitlines()]
    assert [(row[0], row[1], row[-2], row[-1]) for row in rows[1:]] == [
        ("bare", "-", "?", "-"),
        ("code", "1", "python", "none"),
        ("net", "1", "onnxruntime", "complete"),
        ("net", "2", "onnxruntime", "differs"),
    ]


def test_a_config_is_shown_with_its_defaults_and_the_files(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    _, out, _ = run(capsys, "show", "net")
    assert 'backend: "onnxruntime"' in out
    assert f"# 1/model.onnx  {len(onnx_file())} bytes  sha256 " in out


def test_a_version_is_removed_but_the_last_one_and_all_only_when_asked_for(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    run(capsys, "add", "net.onnx", "--name", "net", "--next")
    assert "--version, or give --all" in run(capsys, "rm", "net")[2]
    assert run(capsys, "rm", "net", "--version", "9")[2] == (
        f"error: model 'net' in {repository} has no version 9; it has 1, 2\n"
    )
    assert run(capsys, "rm", "net", "--version", "1", "--dry-run")[1].splitlines() == [
        f"would remove {repository}/net/1/manifest.json",
        f"would remove {repository}/net/1/model.onnx",
    ]
    assert run(capsys, "rm", "net", "--version", "1")[0] == 0
    assert tree(repository) == ["net/2/manifest.json", "net/2/model.onnx"]
    assert "is the last one" in run(capsys, "rm", "net", "--version", "2")[2]
    assert run(capsys, "rm", "net", "--all")[0] == 0
    assert list(repository.iterdir()) == []


def test_versions_are_compared_by_config_and_files(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    run(capsys, "add", "net.onnx", "--name", "same")
    run(capsys, "add", "other.onnx", "--name", "net", "--next")
    (repository / "same/config.pbtxt").write_text("max_batch_size: 2\n")
    assert run(capsys, "diff", "net@1", "net@1")[:2] == (0, "")
    code, out, _ = run(capsys, "diff", "net@1", f"{repository}/net")
    sizes = f"({len(onnx_file())} and {len(onnx_file(batched=True))} bytes)"
    assert (code, out) == (1, f"files differ: model.onnx {sizes}\n")
    _, out, _ = run(capsys, "diff", "net@1", "same")
    assert "+max_batch_size: 2" in out.splitlines()
    assert "files differ" not in out


def test_a_model_is_pulled_and_verified(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "add", "net.onnx", "--name", "net")
    run(capsys, "add", "other.onnx", "--name", "net", "--next")
    _, out, _ = run(capsys, "pull", "net", "--to", "here")
    assert out.endswith("here/net: 2 versions, 2 verified by their manifests\n")
    assert tree(Path("here")) == tree(repository)
    assert "is there already" in run(capsys, "pull", "net", "--to", "here")[2]
    content = bytearray(onnx_file())
    content[-1] ^= 1
    (repository / "net/1/model.onnx").write_bytes(content)
    code, _, err = run(capsys, "pull", "net", "--to", "there")
    assert (code, err.count("\n")) == (1, 1)
    assert "model.onnx" in err
    assert not Path("there/net").exists()
    assert run(capsys, "pull", "net", "--version", "2", "--to", "there")[0] == 0


def test_errors_are_one_line(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (
        ("show", "none"),
        ("add", "missing", "--name", "m"),
        ("add", "net.onnx", "--name", "a/b"),
        ("diff", "none@1", "none@2"),
        ("ls", "--at", "nothing://there"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (1, 1), arguments
        assert err.startswith("error: ")
    monkeypatch.delenv("MANTA_MODEL_REPOSITORY")
    assert "set MANTA_MODEL_REPOSITORY" in run(capsys, "ls")[2]


@pytest.mark.parametrize("command", ["check", "model", "graph"])
def test_commands_import_no_ray(command: str) -> None:
    code = (
        "import contextlib, sys\n"
        "from cluster.cli import main\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    main([{command!r}, '--help'])\n"
        "assert 'ray' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)


def test_a_model_that_completes_its_config_needs_none(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.py").write_bytes(COMPLETING)
    run(capsys, "add", "own.py", "--name", "own")
    assert tree(repository) == ["own/1/manifest.json", "own/1/model.py"]


def test_additions_at_once_get_versions_of_their_own(repository: Path) -> None:
    count = 6
    barrier = Barrier(count)
    for number in range(count):
        Path(f"code{number}.py").write_bytes(PYTHON + b"# %d" % number)

    def add(number: int) -> int:
        barrier.wait()
        path = f"code{number}.py"
        return main(["model", "add", path, "--name", "m", "--next"])

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(add, range(count))) == [0] * count
    versions = [str(number) for number in range(1, count + 1)]
    assert sorted(path.name for path in repository.glob("m/[0-9]*")) == versions
    assert len({path.read_bytes() for path in repository.glob("m/*/model.py")}) == count
    assert [path.name for path in repository.iterdir()] == ["m"]
    assert ModelRepository([str(repository)]).read_model("m").versions == (count,)
