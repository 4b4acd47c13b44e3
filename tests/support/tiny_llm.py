# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The language model that `scripts/make_tiny_llm.py` makes, in models of the backend `llm`."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.api.backend import LoadContext
from tests.support.models import auto_complete, context_of

_SCRIPT = Path(__file__).parents[2] / "scripts" / "make_tiny_llm.py"
_F32 = 'parameters { key: "INFERENCE_PRECISION_HINT" value { string_value: "f32" } }'


@dataclass(frozen=True)
class TinyLlm:
    """Its files.

    Attributes:
        gguf: The GGUF file.
        folder: The Hugging Face folder.
        exported: The folder for OpenVINO.
        greedy: Prompts, and what transformers generates from them.
    """

    gguf: Path
    folder: Path
    exported: Path
    greedy: list[dict[str, Any]]


def make_tiny_llm(folder: Path) -> TinyLlm:
    """Make it, or take it from the user's cache."""
    subprocess.run([sys.executable, str(_SCRIPT), "--output", str(folder)], check=True)
    greedy = json.loads((folder / "greedy.json").read_text())
    return TinyLlm(folder / "tiny.gguf", folder / "tiny", folder / "exported", greedy)


def llm_context(root: Path, source: Path, config: str = "") -> LoadContext:
    """Return a model of a GGUF file or an exported folder, its config completed."""
    context = context_of(root, f'name: "tiny" backend: "llm" {_F32} {config}', thread_count=2)
    target = Path(context.version_dir) / ("model.gguf" if source.is_file() else "model")
    if source.is_file():
        shutil.copy(source, target)
    else:
        shutil.copytree(source, target)
    return LoadContext(
        auto_complete(context), context.model_dir, 1, context.instance_name, thread_count=2
    )
