# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells what framework a file or folder is of, by its content. A table of probes."""

import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnsupportedError,
)
from backends.framework.onnx_file import read_model_file
from backends.framework.torch_file import Format as TorchFormat
from backends.framework.torch_file import format_of
from backends.framework.wire import fields
from cluster.repository.trees import files_below

_HEAD_BYTES: Final = 1 << 16
_PICKLES: Final = frozenset({".pkl", ".pickle", ".joblib"})
_LLM_TOKENIZER: Final = "openvino_tokenizer.xml"
_GRAPH_NODE, _MODEL_GRAPH = 1, 7
_MAX_CHECKPOINT_PART: Final = 99


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format, and how Triton has it in a repository.

    Attributes:
        title: What users call it.
        backend: The backend that runs it.
        filename: Triton's name of its file in a version's directory.
        platform: Its platform in configs, where it has one.
        model_type: Of forests, the parameter model_type.
        is_completed: Whether the backend completes a config from the file.
    """

    title: str
    backend: str
    filename: str
    platform: str = ""
    model_type: str = ""
    is_completed: bool = True


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that was found in a file or folder.

    Attributes:
        files: What a version's directory is to hold: sources by path in it.
        has_completion: Of a model.py, whether it has auto_complete_config.
    """

    format: ModelFormat
    files: Mapping[str, Path] = field(default_factory=dict)
    has_completion: bool = False

    @property
    def needs_config(self) -> bool:
        """Whether a config has to say what no file does."""
        is_python = self.format is PYTHON
        is_completed = self.has_completion if is_python else self.format.is_completed
        return not is_completed or self.format.backend == "fil"

    @property
    def needs_tensors(self) -> bool:
        """Whether that are inputs and outputs, which only its author knows."""
        return self.needs_config and not self.format.model_type


ONNX = ModelFormat("an ONNX model", "onnxruntime", "model.onnx")
SCRIPT = ModelFormat(
    "a TorchScript module", "pytorch", "model.pt", "pytorch_libtorch", is_completed=False
)
EXPORTED = ModelFormat("an exported program of PyTorch", "pytorch", "model.pt2", "torch_aoti")
PACKAGE = ModelFormat(
    "an AOTInductor package", "pytorch", "model.pt2", "torch_aoti", is_completed=False
)
SAVED_MODEL = ModelFormat(
    "a SavedModel of TensorFlow", "tensorflow", "model.savedmodel", "tensorflow_savedmodel"
)
GRAPH_DEF = ModelFormat(
    "a GraphDef of TensorFlow",
    "tensorflow",
    "model.graphdef",
    "tensorflow_graphdef",
    is_completed=False,
)
OPENVINO = ModelFormat("an OpenVINO IR", "openvino", "model.xml")
PLAN = ModelFormat("a TensorRT plan", "tensorrt", "model.plan", "tensorrt_plan")
XGBOOST_JSON = ModelFormat("an XGBoost forest (JSON)", "fil", "xgboost.json", "", "xgboost_json")
XGBOOST_UBJ = ModelFormat("an XGBoost forest (UBJSON)", "fil", "xgboost.ubj", "", "xgboost_ubj")
LIGHTGBM = ModelFormat("a LightGBM forest", "fil", "model.txt", "", "lightgbm")
TREELITE = ModelFormat("a Treelite checkpoint", "fil", "checkpoint.tl", "", "treelite_checkpoint")
GGUF = ModelFormat("a language model (GGUF)", "llm", "model.gguf")
LLM_FOLDER = ModelFormat("a language model (OpenVINO's export)", "llm", "model")
PYTHON = ModelFormat("a model.py", "python", "model.py")

_TORCH: Final = {
    TorchFormat.SCRIPT: SCRIPT,
    TorchFormat.EXPORTED: EXPORTED,
    TorchFormat.PACKAGE: PACKAGE,
}


def find_model(path: Path) -> FoundModel:
    """Return the model in a file or folder that is no model of a repository yet.

    Raises:
        InvalidArgumentError: There is none, it is of an unknown format, or there are several.
    """
    if path.is_dir():
        return _in_folder(path)
    if not path.is_file():
        raise InvalidArgumentError(f"there is no file or folder '{path}'")
    found = _format_of(path)
    if found is None:
        raise _unknown(path)
    return _with_companions(found, path, {})


def _in_folder(path: Path) -> FoundModel:
    if (path / "saved_model.pb").is_file():
        return FoundModel(SAVED_MODEL, _below(path, f"{SAVED_MODEL.filename}/"))
    if (path / _LLM_TOKENIZER).is_file():
        return FoundModel(LLM_FOLDER, _below(path, f"{LLM_FOLDER.filename}/"))
    if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
        raise InvalidArgumentError(
            f"'{path}' is a folder of Hugging Face, which no engine here opens: export it once "
            f"with 'optimum-cli export openvino --model {path} OUTPUT', in an environment with "
            "optimum-intel, and take OUTPUT, or take a GGUF file"
        )
    files = sorted(each for each in path.iterdir() if each.is_file() and each.name[0] != ".")
    # What is beside a model.py is its own, pickles and weights of other formats too: not looked at.
    own = [each for each in files if each.name == PYTHON.filename and _python(each, b"")]
    models = [(each, found) for each in own or files if (found := _format_of(each)) is not None]
    if not models:
        raise _unknown(path)
    if len(models) > 1:
        names = ", ".join(f"'{each.name}'" for each, _ in models)
        raise InvalidArgumentError(
            f"folder '{path}' has several models, {names}: add them one by one"
        )
    file, found = models[0]
    others = _below(path, "")
    del others[file.name]
    return _with_companions(found, file, others)


def _with_companions(found: ModelFormat, file: Path, others: Mapping[str, Path]) -> FoundModel:
    """Add what a model's file needs beside it."""
    files = {**others, found.filename: file}
    if found is ONNX:
        for name in _external_weights(file):
            files[name] = _beside(file, name)
    if found is OPENVINO:
        weights = _beside(file, f"{file.stem}.bin")
        files.pop(weights.name, None)
        files["model.bin"] = weights
    completes = found is PYTHON and b"auto_complete_config" in file.read_bytes()
    return FoundModel(found, dict(sorted(files.items())), completes)


def _external_weights(file: Path) -> tuple[str, ...]:
    try:
        return read_model_file(str(file), file.name).external
    except (InternalError, UnsupportedError) as error:
        raise InvalidArgumentError(
            f"'{file}' begins as an ONNX model does and cannot be served: {error.message}"
        ) from None


def _beside(file: Path, name: str) -> Path:
    path = file.with_name(Path(name).name)
    if not path.is_file() or Path(name).name != name:
        raise InvalidArgumentError(
            f"'{file}' has weights in '{name}', expected beside it; copy both"
        )
    return path


def _below(folder: Path, prefix: str) -> dict[str, Path]:
    return {f"{prefix}{path}": folder / path for path in sorted(files_below(folder))}


def _format_of(path: Path) -> ModelFormat | None:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return next((found for probe in _PROBES if (found := probe(path, head)) is not None), None)


def _zip(path: Path, head: bytes) -> ModelFormat | None:
    if not head.startswith(b"PK\x03\x04"):
        return None
    try:
        found = format_of(str(path), path.name)
    except TritonError:
        return None
    if found not in _TORCH:
        raise InvalidArgumentError(
            f"'{path}' holds {found.value}, which need a class: save it with torch.jit.save or "
            "torch.export.save, or load it in a model.py"
        )
    return _TORCH[found]


def _savedmodel_file(path: Path, head: bytes) -> ModelFormat | None:
    if path.name == "saved_model.pb":
        raise InvalidArgumentError(f"'{path}' is part of a SavedModel: add its folder")
    return None


def _gguf(path: Path, head: bytes) -> ModelFormat | None:
    return GGUF if head.startswith(b"GGUF") else None


def _plan(path: Path, head: bytes) -> ModelFormat | None:
    is_plan = head[:4] in {b"ftrt", b"ptrt"} or path.suffix in {".plan", ".engine"}
    return PLAN if is_plan and head else None


def _ir(path: Path, head: bytes) -> ModelFormat | None:
    return OPENVINO if path.suffix == ".xml" and b"<net" in head else None


def _lightgbm(path: Path, head: bytes) -> ModelFormat | None:
    return LIGHTGBM if head.startswith((b"tree\n", b"tree\r\n")) else None


def _xgboost(path: Path, head: bytes) -> ModelFormat | None:
    # JSON goes on with a quote or with space; UBJSON with the type or the length of the first key.
    if head[:1] != b"{" or b"learner" not in head:
        return None
    return XGBOOST_JSON if head[1:2] == b'"' or head[1:2].isspace() else XGBOOST_UBJ


def _checkpoint(path: Path, head: bytes) -> ModelFormat | None:
    """Tell a checkpoint by its first three numbers, which are Treelite's version."""
    if path.suffix != ".tl" or len(head) < 12:  # noqa: PLR2004 - three 32-bit numbers
        return None
    version = struct.unpack_from("<3i", head)
    return TREELITE if all(0 <= part <= _MAX_CHECKPOINT_PART for part in version) else None


def _python(path: Path, head: bytes) -> ModelFormat | None:
    if path.suffix != ".py":
        return None
    return PYTHON if b"TritonPythonModel" in path.read_bytes() else None


def _pickle(path: Path, head: bytes) -> ModelFormat | None:
    if path.suffix in _PICKLES:
        raise InvalidArgumentError(
            f"'{path}' is a pickle, which is not read, because that runs code from the file; load "
            "it in a model.py and add the folder of both, or make a checkpoint of a forest that "
            "you trust with 'python -m backends.fil.convert_sklearn "
            f"{path.name} checkpoint.tl'"
        )
    return None


def _protobuf(path: Path, head: bytes) -> ModelFormat | None:
    """Tell ONNX models from GraphDefs by the types of their first fields."""
    kinds: dict[int, type] = {}
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        for number, value in fields(data):
            kinds.setdefault(number, type(value))
    # An empty file cannot be mapped, which is a ValueError, too.
    except ValueError:
        return None
    if kinds.get(_GRAPH_NODE) is memoryview and path.suffix in {".pb", ".graphdef"}:
        return GRAPH_DEF
    is_model = kinds.get(_GRAPH_NODE) is int and _MODEL_GRAPH in kinds
    return ONNX if is_model else None


Probe = Callable[[Path, bytes], ModelFormat | None]
# Ordered: what is told by its first bytes before what is told by its shape.
_PROBES: Final[tuple[Probe, ...]] = (
    _pickle,
    _savedmodel_file,
    _zip,
    _gguf,
    _plan,
    _ir,
    _lightgbm,
    _xgboost,
    _checkpoint,
    _python,
    _protobuf,
)


def _unknown(path: Path) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"'{path}' is of no format that is known: expected ONNX, TorchScript, an exported program "
        "or AOTInductor package of PyTorch, a SavedModel folder, a GraphDef, an OpenVINO IR, a "
        "TensorRT plan, a GGUF file, a forest of XGBoost (JSON, UBJSON), LightGBM (text) or "
        "Treelite, a model.py or a model's folder of a Triton repository"
    )
