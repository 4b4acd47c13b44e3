# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one model into a temporary repository and loads it without a server."""

from pathlib import Path
from typing import Any

from backends.api.backend import LoadContext, ModelInstance
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import parse_pbtxt
from backends.registry import backend_for


def context_of(root: Path, config: str, **fields: Any) -> LoadContext:
    """Return the context of version 1 of a model whose config.pbtxt is ``config``."""
    parsed = parse_pbtxt(config, "config.pbtxt")
    model_dir = root / parsed.name
    (model_dir / "1").mkdir(parents=True, exist_ok=True)
    return LoadContext(parsed, str(model_dir), 1, f"{parsed.name}_0_0", **fields)


def load(context: LoadContext) -> ModelInstance:
    """Load the context's model with the backend its config names."""
    return backend_for(context).load(context)


def auto_complete(context: LoadContext) -> ModelConfig:
    """Auto-complete the context's config with the backend it names."""
    return backend_for(context).auto_complete(context)


def write_python_model(context: LoadContext, source: str, *, filename: str = "model.py") -> None:
    """Write a model.py that starts with the imports every model needs."""
    head = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"
    (Path(context.version_dir) / filename).write_text(head + source)
