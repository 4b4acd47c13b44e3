# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `manta check` prints, and its exit codes."""

import json
from pathlib import Path

import pytest

from cluster.cli import main
from tests.support.broken_models import Model as Written
from tests.support.broken_repositories import (
    COMPLETING,
    CPU,
    ENSEMBLE,
    PYTHON,
    TENSORS,
    onnx_file,
    write,
)

IDENTITY = f'backend: "identity"\n{TENSORS}{CPU}'


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    main(["check", *map(str, arguments)])
    return capsys.readouterr().out.splitlines()


def only_error(capsys: pytest.CaptureFixture[str], root: Path) -> str:
    lines = [line for line in lines_of(capsys, root) if ": error: " in line]
    assert len(lines) == 1, lines
    return lines[0].replace(f"{root}/", "")


def identity(root: Path, config: str, name: str = "m") -> None:
    write(Written("identity", config, {"1/.keep": b""}), root / name)


def test_a_repository_whose_models_load_is_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY)
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 of 1 models load, 0 errors, 0 warnings\n"


def test_a_file_alone_and_a_models_folder_are_checked_as_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_file())
    identity(tmp_path / "models", IDENTITY)
    lines = lines_of(capsys, tmp_path / "net.onnx", tmp_path / "models/m")
    assert lines[0].startswith("net:1:1: note: not checked:")
    assert lines[1:] == ["2 of 2 models load, 0 errors, 0 warnings"]
    (tmp_path / "notes").write_text("x")
    assert main(["check", str(tmp_path / "notes")]) == 2
    assert "of no format that is known" in capsys.readouterr().err


def test_an_unknown_field_is_told_with_its_place_and_the_nearest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY + "  max_batchsize: 4\n")
    assert only_error(capsys, tmp_path) == (
        f"m/config.pbtxt:6:3: error: failed to read text proto from {tmp_path}/m/config.pbtxt: "
        'Message type "inference.ModelConfig" has no field named "max_batchsize", did you mean '
        "'max_batch_size'?; write it so"
    ).replace(f"{tmp_path}/", "")
    assert main(["check", str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("dims: [ 4 ] } ]\noutput", "} ]\noutput"),
            "m/config.pbtxt:3:11: error: model input 'IN' must specify 'dims' for m; add dims, "
            "without the batch dimension",
        ),
        (
            ("KIND_CPU count: 1", "KIND_CPU count: 1 gpus: [ 3 ]"),
            "m/config.pbtxt:5:52: error: instance group m_0 of model m has kind KIND_CPU but "
            "specifies one or more GPUs; remove gpus, or use KIND_GPU",
        ),
        (
            ('backend: "identity"', 'backend: "indentity"'),
            "m/config.pbtxt:1:1: error: unable to find backend library for backend 'indentity', "
            "try specifying runtime on the model configuration. did you mean 'identity'?; write it "
            "so",
        ),
        (
            ('backend: "identity"', 'name: "other" backend: "identity"'),
            "m/config.pbtxt:1:1: error: unexpected directory name 'm' for model 'other', directory "
            "name must equal model name; remove 'name', or rename the directory",
        ),
        (
            ("count: 1 }", "count: 1 } ]\nversion_policy { specific { versions: [ 3 ] } } # ["),
            "m/config.pbtxt:6:1: error: load failed for model 'm': at least one version must be "
            "available under the version policy of model 'm'; add a directory named after its "
            "version, such as 1, or change version_policy",
        ),
    ],
)
def test_a_defect_has_its_line_and_column_the_loads_text_and_a_fix(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    expected: str,
) -> None:
    assert change[0] in IDENTITY
    identity(tmp_path, IDENTITY.replace(*change))
    assert only_error(capsys, tmp_path) == expected


def test_all_that_is_wrong_with_a_config_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "max_batch_size: -1\ndynamic_batching { priority_levels: 2 }\n"
    identity(tmp_path, IDENTITY.replace("dims: [ 4 ]", "dims: [ 0 ]") + wrong)
    errors = [line for line in lines_of(capsys, tmp_path) if ": error: " in line]
    assert [line.split(":")[1] for line in errors] == ["6", "7", "3", "4"]


def test_a_file_that_is_missing_is_the_place_of_its_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Written("onnx", f'backend: "onnxruntime"\n{TENSORS}', {"1/.keep": b""}), tmp_path / "m")
    path = tmp_path / "m/1/model.onnx"
    assert only_error(capsys, tmp_path) == (
        f"m/1/model.onnx:1:1: error: unable to find '{path}' for model instance 'm_0'; add the "
        "file, or name it in default_model_filename"
    ).replace(f"{tmp_path}/", "")


def test_a_config_is_compared_with_the_signature_of_an_onnx_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = f'backend: "onnxruntime"\n{TENSORS}'.replace("TYPE_FP32", "TYPE_INT32", 1)
    write(Written("onnx", config, {"1/model.onnx": onnx_file()}), tmp_path / "m")
    assert only_error(capsys, tmp_path) == (
        "m/config.pbtxt:3:22: error: unable to load model 'm', configuration expects datatype "
        "TYPE_INT32 for input 'IN', model provides TYPE_FP32; use the model's datatype"
    )


def test_a_syntax_error_is_told_with_its_place_in_model_py(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"1/model.py": PYTHON + b"\ndef (\n"}
    write(Written("python", f'backend: "python"\n{TENSORS}', files), tmp_path / "m")
    line = PYTHON.count(b"\n") + 2
    assert only_error(capsys, tmp_path) == (
        f"m/1/model.py:{line}:5: error: SyntaxError: m/1/model.py: invalid syntax; correct the "
        "source"
    )


def test_what_only_a_load_tells_is_said_to_be_unchecked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Written("python", None, {"1/model.py": COMPLETING}), tmp_path / "m")
    notes = [line.rpartition("note: ")[2] for line in lines_of(capsys, tmp_path)[:-1]]
    assert notes == [
        "not checked: inputs and outputs, which auto_complete_config of model.py may set",
        "not checked: what model.py does when it is imported and initialized",
    ]


def test_an_ensemble_is_checked_against_the_models_of_its_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY.replace("FP32", "INT32"), "part")
    write(Written("ensemble", ENSEMBLE, {"1/.keep": b""}), tmp_path / "e")
    assert "ensemble tensor IN: inconsistent data type" in only_error(capsys, tmp_path)


def test_namespaces_of_steps_count_for_nothing_where_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY, "part")
    ensemble = ENSEMBLE.replace('model_name: "part"', 'model_name: "part" model_namespace: "else"')
    assert ensemble != ENSEMBLE
    write(Written("ensemble", ensemble, {"1/.keep": b""}), tmp_path / "e")
    assert lines_of(capsys, tmp_path) == ["2 of 2 models load, 0 errors, 0 warnings"]


def test_a_model_in_two_repositories_is_a_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        identity(tmp_path / name, IDENTITY)
    lines = lines_of(capsys, tmp_path / "a", tmp_path / "b")
    assert "not unique across all model repositories" in lines[0]
    assert lines[-1] == "0 of 1 models load, 1 errors, 0 warnings"


def test_warnings_count_when_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identity(tmp_path, IDENTITY)
    (tmp_path / "m/1/outside").symlink_to("/etc/hostname")
    (tmp_path / "m/01").mkdir()
    assert main(["check", str(tmp_path)]) == 0
    assert main(["check", str(tmp_path), "--strict"]) == 1
    out = capsys.readouterr().out
    assert "warning: the link leads out of the repository" in out
    assert "warning: ignore version directory '01'" in out


def test_an_agent_that_nobody_has_is_a_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY + 'model_repository_agents { agents [ { name: "cheksum" } ] }\n')
    assert "'cheksum'" in only_error(capsys, tmp_path)


def test_gpus_that_a_config_names_are_believed_unless_their_number_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY.replace("KIND_CPU", "KIND_GPU"))
    assert main(["check", str(tmp_path)]) == 0
    assert main(["check", str(tmp_path), "--gpus", "0"]) == 1
    assert "no GPUs are available" in capsys.readouterr().out


def test_json_has_every_defect_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(tmp_path, IDENTITY)
    identity(tmp_path, "max_batch_size: -1\n" + IDENTITY, "wrong")
    assert main(["check", str(tmp_path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["loads"] is False
    fine, wrong = report["models"]
    assert fine == {"name": "m", "loads": True, "versions": [1], "defects": []}
    assert wrong["defects"] == [
        {
            "file": f"{tmp_path}/wrong/config.pbtxt",
            "line": 1,
            "column": 1,
            "severity": "error",
            "text": "'max_batch_size' must be non-negative value for wrong",
            "fix": "set it to 0 or more",
        }
    ]


def test_a_repository_that_is_not_there_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_options_of_the_server_may_follow(tmp_path: Path) -> None:
    identity(tmp_path, "max_batch_size: -1\n" + IDENTITY)
    (tmp_path / "m/configs").mkdir()
    (tmp_path / "m/configs/small.pbtxt").write_text(IDENTITY)
    assert main(["check", str(tmp_path)]) == 1
    assert main(["check", str(tmp_path), "--model-config-name=small"]) == 0
