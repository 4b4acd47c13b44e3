# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Configs and requests of `torch_models.Accumulator` in a file that names its tensors."""

from collections.abc import Sequence

import numpy as np

from tests.support.recording import RecordingRequest, recorded

# Of INPUT0, the state, START, READY and CORRID; then of the output and the state.
ORDINAL = [*(f"INPUT__{place}" for place in range(5)), "OUTPUT__0", "OUTPUT__1"]
FORWARD = [*(f"ARGS[{place}]" for place in range(5)), "RESULT[0]", "RESULT[1]"]


def config(names: Sequence[str], corrid: str = "INT32", state: str = "FP32") -> str:
    """Return a config with sequences, under these names."""
    data, held, start, ready, correlation, out, made = names
    flags = "fp32_false_true: [ 0, 1 ]"
    return f"""
    name: "m" platform: "torch_aoti" max_batch_size: 8
    input {{ name: "{data}" data_type: TYPE_FP32 dims: [ 1 ] }}
    output {{ name: "{out}" data_type: TYPE_FP32 dims: [ 1 ] }}
    sequence_batching {{
      control_input {{ name: "{start}" control {{ kind: CONTROL_SEQUENCE_START {flags} }} }}
      control_input {{ name: "{ready}" control {{ kind: CONTROL_SEQUENCE_READY {flags} }} }}
      control_input {{
        name: "{correlation}"
        control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_{corrid} }}
      }}
      state {{
        input_name: "{held}" output_name: "{made}" data_type: TYPE_{state} dims: [ 1 ]
      }}
    }}
    """


def step(
    names: Sequence[str], value: float, held: float, start: bool, corrid: int
) -> RecordingRequest:
    """Return a request as the scheduler hands it to an instance."""
    fed = dict(zip(names, (value, held, float(start), 1.0), strict=False))
    arrays = {name: np.array([[number]], np.float32) for name, number in fed.items()}
    return recorded(arrays | {names[4]: np.array([[corrid]], np.int32)})
