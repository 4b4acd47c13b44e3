# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a language model, and what they tell without an engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.llm.gguf_file import read_gguf

GGUF_FILE: Final = "model.gguf"
FOLDER: Final = "model"
_GGUF: Final = ".gguf"
# What the folder of an exported model has.
IR: Final = "openvino_model.xml"
_TOKENIZERS: Final = ("openvino_tokenizer.xml", "openvino_detokenizer.xml")
_CONFIG: Final = "config.json"
# Where a folder may have its chat template, and the text that says so.
_TEMPLATES: Final = {
    "chat_template.json": "",
    "tokenizer_config.json": '"chat_template"',
    _TOKENIZERS[0]: "<chat_template ",
}
_EXPORT: Final = "optimum-cli export openvino --model FOLDER OUTPUT"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a language model is in.

    Attributes:
        path: The GGUF file, or the folder.
        is_gguf: Whether it is a file.
        has_chat_template: Whether messages can be made a prompt.
        context_tokens: Tokens that prompt and answer may have together; 0 when nobody says.
        architecture: The kind of model as the files name it; empty when they do not.
        matrix_formats: Of a GGUF file: the formats of its weights.
    """

    path: str
    is_gguf: bool
    has_chat_template: bool
    context_tokens: int = 0
    architecture: str = ""
    matrix_formats: frozenset[str] = frozenset()


def model_files(context: LoadContext) -> ModelFiles:
    """Find and read a model's files.

    Raises:
        UnavailableError: There are none.
        InvalidArgumentError: They are no GGUF file and no exported folder; the message says what to
            do.
    """
    path = _path(context)
    if Path(path).is_dir():
        return _folder(path, context.config.name)
    if not path.endswith(_GGUF):
        raise InvalidArgumentError(
            f"model '{context.config.name}' has the file '{path}', expected a name ending in "
            f"'{_GGUF}', or a folder with an exported model"
        )
    head = read_gguf(path, context.config.name)
    return ModelFiles(
        path,
        True,
        bool(head.chat_template),
        head.context_tokens,
        head.architecture,
        head.matrix_formats,
    )


def _path(context: LoadContext) -> str:
    given = context.config.default_model_filename
    names = (given,) if given else (GGUF_FILE, FOLDER)
    paths = [context.model_path(name) for name in names]
    for path in paths:
        if Path(path).exists():
            return path
    raise UnavailableError(
        f"unable to find {' or '.join(repr(path) for path in paths)} for model "
        f"'{context.config.name}'"
    )


def _folder(path: str, model: str) -> ModelFiles:
    folder = Path(path)
    if not (folder / IR).exists():
        what = "a Hugging Face folder" if (folder / _CONFIG).exists() else "no exported model"
        raise InvalidArgumentError(
            f"model '{model}' has the folder '{path}', which is {what} without '{IR}': export it "
            f"once with '{_EXPORT}', in an environment with optimum-intel, or serve a GGUF file"
        )
    for name in _TOKENIZERS:
        if not (folder / name).exists():
            raise InvalidArgumentError(
                f"model '{model}' has the folder '{path}' without '{name}': export it with its "
                f"tokenizer, '{_EXPORT}'"
            )
    config = _json(folder / _CONFIG)
    architectures = config.get("architectures") or [""]
    return ModelFiles(
        path,
        False,
        any(_says(folder / name, text) for name, text in _TEMPLATES.items()),
        _integer(config.get("max_position_embeddings")),
        str(config.get("model_type") or architectures[0]),
    )


def _json(path: Path) -> Mapping[str, Any]:
    """Return what a file says; nothing if it is not there or no object."""
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _says(path: Path, text: str) -> bool:
    try:
        return text in path.read_text(errors="replace")
    except OSError:
        return False


def _integer(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
