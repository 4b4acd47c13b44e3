# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Python model whose execute runs whatever code a test gives it."""

import itertools
from pathlib import Path

from backends.api.backend import LoadContext, ModelInstance
from tests.support.models import context_of, load, write_python_model

CONFIG = """
name: "probe" backend: "python" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 2 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 2 ] }
output { name: "OUTPUT1" data_type: TYPE_STRING dims: [ 1 ] }
"""
DECOUPLED = CONFIG + "model_transaction_policy { decoupled: true }"

_serial = itertools.count()


def model_context(
    root: Path, source: str, *, config: str = CONFIG, **fields: object
) -> LoadContext:
    """Return the context of a model with this model.py, in a directory of its own."""
    context = context_of(root / str(next(_serial)), config, **fields)
    write_python_model(context, source)
    return context


def model(root: Path, body: str, *, config: str = CONFIG, execute: str = "def") -> ModelInstance:
    """Load a model whose execute has this body; ``one(n)`` makes a response of OUTPUT0 = n."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    source = (
        "import asyncio, threading\n"
        "def one(n):\n"
        "    array = np.array([[n, n]], dtype=np.int32)\n"
        '    return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)])\n'
        "class TritonPythonModel:\n"
        f"    {execute} execute(self, requests):\n{lines}"
    )
    return load(model_context(root, source, config=config))
