# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Under which names a config may have a module's tensors, case by case as in upstream's tests.

Triton: server/qa/L0_libtorch_io_names
"""

import numpy as np
import pytest

from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - once PyTorch is known to be there


@pytest.mark.parametrize(
    ("case", "inputs", "outputs", "is_turned"),
    [
        ("io_index", "INPUT__0 INPUT__1", "OUTPUT__0 OUTPUT__1", False),
        ("output_index", "INPUT0 INPUT1", "OUTPUT__0 OUTPUT__1", False),
        ("no_output_index", "INPUT0 INPUT1", "OUTPUT0 OUTPUT1", False),
        ("no_arguments_no_output_index", "INPUTA INPUTB", "OUTPUTA OUTPUTB", False),
        ("mix_index", "INPUTA INPUT__1", "OUTPUTA OUTPUT__1", False),
        ("mix_arguments", "INPUT0 INPUTB", "OUTPUTA OUTPUT__1", False),
        ("mix_arguments_index", "INPUT0 INPUT__1", "OUTPUT0 OUTPUT__1", False),
        ("unordered_index", "INPUT1 INPUT0", "OUT__1 OUT__0", True),
    ],
)
def test_io_names(tmp_path, case, inputs, outputs, is_turned):
    names, made = inputs.split(), outputs.split()
    context = context_of(
        tmp_path,
        f'name: "{case}" platform: "pytorch_libtorch" max_batch_size: 8 '
        + "".join(f'input {{ name: "{x}" data_type: TYPE_FP32 dims: [ 16 ] }} ' for x in names)
        + "".join(f'output {{ name: "{x}" data_type: TYPE_FP32 dims: [ 16 ] }} ' for x in made),
    )
    models.save_script(models.AddSub(), context.model_path("model.pt"))
    first = np.arange(16, dtype=np.float32).reshape(1, 16)
    second = np.full((1, 16), -1, np.float32)
    # The module's first argument and result are the config's last ones where it is turned.
    order = slice(None, None, -1 if is_turned else 1)
    request = recorded(dict(zip(names[order], (first, second), strict=True)))
    execute(load(context), request)
    total, difference = made[order]
    assert np.array_equal(request.arrays()[total], first + second)
    assert np.array_equal(request.arrays()[difference], first - second)
