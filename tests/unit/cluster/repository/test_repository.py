# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from cluster.repository.filesystem import DirectoryEntry
from cluster.repository.model_directory import check_model_name
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.local import LocalFileSystem

POLLED = "failed to load 'm', failed to poll from model repository: "


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


def write_model(root: Path, name: str = "m", config: str | None = "", versions: str = "1") -> Path:
    model = root / name
    model.mkdir()
    for version in versions.split():
        (model / version).mkdir()
        (model / version / "model.py").write_text("x")
    if config is not None:
        (model / "config.pbtxt").write_text(config)
    return model


def failure(repository: ModelRepository, name: str = "m", **override: object) -> str:
    with pytest.raises(InternalError) as caught:
        repository.read_model(name, **override)  # type: ignore[arg-type]
    assert caught.value.message.startswith(POLLED)
    return caught.value.message.removeprefix(POLLED)


def test_a_model_without_config_is_inferred(root: Path):
    model = write_model(root, config=None, versions="1 3")
    found = ModelRepository([str(root)]).read_model("m")
    assert (found.config.name, found.config.backend) == ("m", "python")
    assert found.versions == (3,)
    assert found.model_dir == str(model)
    assert found.needs_auto_complete
    assert not found.is_temporary


def test_version_policy_and_warnings(root: Path):
    write_model(root, config="version_policy { specific { versions: [1, 9] } }", versions="1 2 03")
    found = ModelRepository([str(root)]).read_model("m")
    assert found.versions == (1,)
    assert [warning.split(" ")[0] for warning in found.warnings] == ["ignore", "version"]


def test_a_model_without_versions_is_read(root: Path):
    write_model(root, config='backend: "python"', versions="")
    assert ModelRepository([str(root)]).read_model("m").versions == ()


def test_a_config_that_is_read_again_and_again_is_parsed_and_completed_once(root: Path):
    write_model(root, config='backend: "python"')
    repository = ModelRepository([str(root)])
    first, second, third = (repository.read_model("m").config for _ in range(3))
    assert second is third
    assert second == first


def test_another_config_of_the_same_size_and_time_is_read(root: Path):
    config = write_model(root, config="max_batch_size: 1") / "config.pbtxt"
    repository = ModelRepository([str(root)])
    before = [repository.read_model("m").config.max_batch_size for _ in range(3)]
    status = config.stat()
    config.write_text("max_batch_size: 2")
    os.utime(config, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = [repository.read_model("m").config.max_batch_size for _ in range(3)]
    assert (before, after) == ([1] * 3, [2] * 3)


def test_the_same_config_is_completed_by_the_files_there_are_now(root: Path):
    model = write_model(root, config="max_batch_size: 1")
    repository = ModelRepository([str(root)])
    before = [repository.read_model("m").config.backend for _ in range(3)]
    (model / "1/model.py").rename(model / "1/model.onnx")
    after = [repository.read_model("m").config.backend for _ in range(3)]
    assert (before, after) == (["python"] * 3, ["onnxruntime"] * 3)


def test_an_ensemble_is_not_auto_completed(root: Path):
    text = (
        'platform: "ensemble" input { name: "A" data_type: TYPE_FP32 dims: [1] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [1] } ensemble_scheduling { step { '
        'model_name: "a" model_version: -1 input_map { key: "I" value: "A" } '
        'output_map { key: "O" value: "Y" } } }'
    )
    write_model(root, config=text)
    found = ModelRepository([str(root)]).read_model("m")
    assert not found.needs_auto_complete
    assert found.config.has_ensemble_scheduling


def test_the_named_config_is_preferred_where_it_exists(root: Path):
    model = write_model(root, config="max_batch_size: 1")
    write_model(root, name="other", config="max_batch_size: 1")
    (model / "configs").mkdir()
    (model / "configs" / "h100.pbtxt").write_text("max_batch_size: 8")
    repository = ModelRepository([str(root)], model_config_name="h100")
    assert repository.read_model("m").config.max_batch_size == 8
    assert repository.read_model("other").config.max_batch_size == 1


def test_a_config_name_is_no_path(root: Path):
    with pytest.raises(InvalidArgumentError, match="not a path"):
        ModelRepository([str(root)], model_config_name="../x")


def test_without_auto_complete_a_config_is_required(root: Path):
    write_model(root, config=None)
    reason = failure(ModelRepository([str(root)], auto_complete=False))
    assert reason == (
        f"failed to open text file for read {root}/m/config.pbtxt: No such file or directory"
    )


def test_without_auto_complete_tensors_are_checked(root: Path):
    write_model(root, config='input { name: "a" dims: [1] }')
    assert failure(ModelRepository([str(root)], auto_complete=False)) == (
        "model input 'a' must specify 'data_type' for m"
    )
    assert ModelRepository([str(root)]).read_model("m").needs_auto_complete


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            'name: "x"',
            "unexpected directory name 'm' for model 'x', directory name must equal model name",
        ),
        ("max_batch_size: -1", "'max_batch_size' must be non-negative value for m"),
    ],
)
def test_a_bad_config_fails_the_poll(root: Path, config: str, expected: str):
    write_model(root, config=config)
    assert failure(ModelRepository([str(root)])) == expected


def test_text_errors_name_the_file(root: Path):
    model = write_model(root, config="nope: 1")
    assert failure(ModelRepository([str(root)])).startswith(
        f"failed to read text proto from {model}/config.pbtxt: line 1, column 1"
    )
    (model / "config.pbtxt").write_bytes(b'name: "\xff"')
    assert "byte 7 is not UTF-8" in failure(ModelRepository([str(root)]))


def test_nothing_tells_the_backend(root: Path):
    (root / "m").mkdir()
    assert failure(ModelRepository([str(root)])).startswith(
        "Invalid model name: Could not determine"
    )


def test_a_model_that_is_not_there(root: Path):
    assert failure(ModelRepository([str(root)])) == "model not found in any model repository"


def test_a_name_longer_than_any_file_name_is_not_there(root: Path):
    name = "m" * 300
    with pytest.raises(InternalError) as caught:
        ModelRepository([str(root)]).read_model(name)
    polled = POLLED.replace("'m'", f"'{name}'")
    assert caught.value.message == f"{polled}model not found in any model repository"


def test_without_room_for_override_files_the_poll_fails_without_naming_a_path(
    root: Path, tmp_path: Path
):
    repository = ModelRepository([str(root)], temporary_root=str(tmp_path / "gone"))
    override = {"override_config_json": "{}", "override_files": {"file:1/model.py": b"x"}}
    assert failure(repository, **override) == "No such file or directory"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "/etc", "../m", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(root: Path, name: str):
    with pytest.raises(InvalidArgumentError) as caught:
        ModelRepository([str(root)]).read_model(name)
    assert caught.value.message == (
        f"invalid model name '{name}', model name must not contain path traversal characters"
    )


@pytest.mark.parametrize("name", ["", "  "])
def test_empty_names_are_refused(name: str):
    with pytest.raises(InvalidArgumentError, match="Model name cannot be empty"):
        check_model_name(name)


def test_a_model_in_two_repositories_is_unavailable(root: Path, tmp_path: Path):
    second = tmp_path / "more"
    second.mkdir()
    write_model(root)
    write_model(second)
    write_model(second, name="only")
    repository = ModelRepository([str(root), str(second), str(root)])
    assert "not unique across all model repositories" in failure(repository)
    scan = repository.scan()
    assert scan.duplicates == {"m"}
    assert list(scan.directories) == ["m", "only"]
    assert repository.read_model("only").model_dir == f"{second}/only"


def test_scan_skips_files_and_hidden_directories(root: Path, tmp_path: Path):
    write_model(root)
    (root / ".git").mkdir()
    (root / "README").write_text("x")
    scan = ModelRepository([str(root), str(tmp_path / "gone")]).scan()
    assert list(scan.directories) == ["m"]
    assert list(scan.errors) == [str(tmp_path / "gone")]


def test_a_repository_that_cannot_be_listed_has_the_models_of_its_last_listing(
    root: Path, tmp_path: Path
):
    write_model(root)
    repository = ModelRepository([str(root)])
    repository.scan()
    root.rename(tmp_path / "away")
    scan = repository.scan()
    assert list(scan.directories) == ["m"]
    assert list(scan.errors) == list(scan.stale) == [str(root)]
    (tmp_path / "away").rename(root)
    scan = repository.scan()
    assert (list(scan.directories), scan.errors, scan.stale) == (["m"], {}, frozenset())


def labelled(filename: str) -> str:
    return (
        'backend: "python" output { name: "Y" data_type: TYPE_FP32 dims: [2] '
        f'label_filename: "{filename}" }}'
    )


def test_labels_are_lines_of_the_label_file(root: Path):
    model = write_model(root, config=labelled("labels.txt"))
    (model / "labels.txt").write_text("cat\ndog\n\nfish\n")
    found = ModelRepository([str(root)]).read_model("m")
    assert found.labels == {"Y": ("cat", "dog", "", "fish")}


def test_label_files_stay_in_the_model(root: Path):
    write_model(root, config=labelled("../../secret"))
    assert failure(ModelRepository([str(root)])) == (
        f"label file path '{root}/m/../../secret' for output 'Y' in model 'm' is outside model "
        "directory"
    )


@pytest.mark.parametrize("filename", ["x" * 300, "loop"])
def test_a_label_file_that_cannot_be_opened_fails_the_poll(root: Path, filename: str):
    model = write_model(root, config=labelled(filename))
    (model / "loop").symlink_to("loop")
    assert "failed to open text file for read" in failure(ModelRepository([str(root)]))


def test_a_label_file_whose_name_holds_a_nul_fails_the_poll(root: Path):
    write_model(root, config=labelled("a\\000b"))
    assert "is outside model directory" in failure(ModelRepository([str(root)]))


def test_a_missing_label_file_fails_the_poll(root: Path):
    write_model(root, config=labelled("labels.txt"))
    assert "failed to open text file for read" in failure(ModelRepository([str(root)]))


def test_a_config_override_replaces_the_whole_config(root: Path):
    write_model(root, config="max_batch_size: 8 dynamic_batching {}")
    found = ModelRepository([str(root)]).read_model(
        "m", override_config_json='{"max_batch_size": 2}'
    )
    assert found.config.max_batch_size == 2
    assert found.config.dynamic_batching is None


def test_a_bad_config_override_fails_the_poll(root: Path):
    write_model(root)
    reason = failure(ModelRepository([str(root)]), override_config_json='{"nope": 1}')
    assert reason.startswith("Invalid config override: ")


def test_file_digests_follow_what_a_version_is_loaded_from(root: Path):
    model = write_model(root, config="version_policy { all {} }", versions="1 2")
    repository = ModelRepository([str(root)])
    before = repository.read_model("m").file_digests
    (model / "config.pbtxt").write_text("version_policy { all {} } max_batch_size: 3")
    (model / "3").mkdir()
    after_config = repository.read_model("m").file_digests
    assert {1: after_config[1], 2: after_config[2]} == before
    (model / "2" / "model.py").write_text("changed")
    after_version = repository.read_model("m").file_digests
    assert after_version[1] == before[1]
    assert after_version[2] != before[2]
    (model / "shared.txt").write_text("x")
    after_shared = repository.read_model("m").file_digests
    assert after_shared[1] != before[1]


def test_a_directory_digest_follows_every_file_of_a_model(root: Path):
    model = write_model(root, versions="1 2")
    repository = ModelRepository([str(root)])
    digests = [repository.open_directory("m").digest()]
    assert repository.open_directory("m").digest() == digests[0]
    for path, text in (("config.pbtxt", "max_batch_size: 3"), ("1/model.py", "y2"), ("new", "")):
        (model / path).write_text(text)
        digests.append(repository.open_directory("m").digest())
    assert len(set(digests)) == len(digests)
    with pytest.raises(InvalidArgumentError):
        repository.open_directory("../m")


def test_override_files_replace_the_whole_directory(root: Path, tmp_path: Path):
    write_model(root, versions="7")
    repository = ModelRepository([str(root)], temporary_root=str(tmp_path))
    found = repository.read_model(
        "m",
        override_config_json='{"backend": "python"}',
        override_files={"file:1/model.py": b"y", "file:a/b/c": b""},
    )
    assert found.versions == (1,)
    assert found.is_temporary
    assert Path(found.model_dir, "1", "model.py").read_bytes() == b"y"
    assert Path(found.model_dir, "config.pbtxt").read_text() == 'backend: "python"\n'
    assert found.model_dir.startswith(str(tmp_path))


def test_a_model_may_consist_of_override_files_alone(root: Path, tmp_path: Path):
    repository = ModelRepository([str(root)], temporary_root=str(tmp_path))
    found = repository.read_model(
        "m", override_config_json="{}", override_files={"file:1/model.py": b""}
    )
    assert found.config.backend == "python"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("file:../x", "Invalid file parameter 'file:../x' with normalized path '"),
        ("file:1/../../x", "must stay within model directory."),
        ("file:config.pbtxt/x", "directory has been created as a file"),
        ("file:a\0b", "Invalid file parameter 'a\0b'"),
        ("file:" + "x" * 300, "File name too long"),
        ("file:", "Invalid file parameter 'file:'"),
    ],
)
def test_override_files_stay_in_the_directory(root: Path, tmp_path: Path, name: str, expected: str):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    repository = ModelRepository([str(root)], temporary_root=str(temporary))
    reason = failure(repository, override_config_json="{}", override_files={name: b"x"})
    assert expected in reason
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "x").exists()


def test_an_absolute_override_path_is_taken_as_relative(root: Path, tmp_path: Path):
    repository = ModelRepository([str(root)], temporary_root=str(tmp_path))
    found = repository.read_model(
        "m", override_config_json='{"backend": "python"}', override_files={"file:/1/x": b"y"}
    )
    assert Path(found.model_dir, "1", "x").read_bytes() == b"y"


def test_override_files_need_a_config(root: Path):
    assert failure(ModelRepository([str(root)]), override_files={"file:1/x": b""}) == (
        "Load parameter 'config' must be specified for model file override"
    )


def test_override_files_of_a_refused_model_are_removed(root: Path, tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    repository = ModelRepository([str(root)], temporary_root=str(temporary))
    reason = failure(
        repository,
        override_config_json='{"max_batch_size": -1}',
        override_files={"file:1/model.py": b""},
    )
    assert reason == "'max_batch_size' must be non-negative value for m"
    assert list(temporary.iterdir()) == []


class CountingFileSystem(LocalFileSystem):
    def __init__(self) -> None:
        self.listed: list[str] = []

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        self.listed.append(path)
        return super().entries(path)


def test_a_tree_is_walked_once_however_many_digests_are_asked_for(root: Path):
    model = write_model(root, config="version_policy { all {} }", versions="1 2")
    (model / "1" / "deep").mkdir()
    filesystem = CountingFileSystem()
    repository = ModelRepository([str(root)], open_location=lambda location: (filesystem, location))
    directory = repository.open_directory("m")
    directory.digest()
    filesystem.listed.clear()
    repository.read_model("m", override_config_json="{}", directory=directory)
    # What tells the backend is looked at, nothing is digested again.
    assert filesystem.listed == [f"{model}/1"]


@pytest.fixture
def two_roots(tmp_path: Path) -> tuple[str, str]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_model(tmp_path / name)
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_with_namespaces_each_repository_has_its_own_names(two_roots: tuple[str, str]):
    repository = ModelRepository(two_roots, has_namespaces=True)
    keys = tuple(f"{root}/m" for root in two_roots)
    scan = repository.scan()
    assert tuple(scan.directories) == keys == repository.keys_of("m")
    assert not scan.duplicates
    found = repository.read_model(keys[1])
    assert (found.name, found.namespace, found.model_dir) == ("m", two_roots[1], keys[1])
    assert repository.open_directory(keys[0]).place.path == keys[0]
    assert repository.keys_of("n") == ()


def test_without_namespaces_the_key_is_the_name(two_roots: tuple[str, str]):
    repository = ModelRepository(two_roots)
    assert repository.keys_of("m") == ("m",)
    assert repository.scan().duplicates == {"m"}
    assert "not unique across all model repositories" in failure(repository)


def test_with_namespaces_a_plain_name_is_in_no_repository(two_roots: tuple[str, str]):
    repository = ModelRepository(two_roots, has_namespaces=True)
    assert failure(repository) == "model not found in any model repository"


def test_with_namespaces_files_of_a_load_make_a_model_of_no_repository(
    two_roots: tuple[str, str], tmp_path: Path
):
    repository = ModelRepository(two_roots, has_namespaces=True, temporary_root=str(tmp_path))
    found = repository.read_model(
        "m",
        override_config_json='{"backend": "python"}',
        override_files={"file:1/model.py": b"x"},
    )
    assert (found.name, found.namespace, found.is_temporary) == ("m", "", True)


@pytest.mark.parametrize(
    ("config_name", "versions"),
    [("", (1, 3)), ("h100", (1,)), ("v100", (2,)), ("config", (3,)), ("h200", (1, 3))],
)
def test_a_custom_config_is_read_where_a_model_has_one(
    root: Path, config_name: str, versions: tuple[int, ...]
):
    def policy(*numbers: int) -> str:
        return f"version_policy {{ specific {{ versions: {list(numbers)} }} }}"

    model = write_model(root, config=policy(1, 3), versions="1 2 3")
    (model / "configs").mkdir()
    for name, number in (("h100", 1), ("v100", 2), ("config", 3)):
        (model / f"configs/{name}.pbtxt").write_text(policy(number))
    found = ModelRepository([str(root)], model_config_name=config_name).read_model("m")
    assert found.versions == found.config.version_policy.versions == versions
