# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the config.pbtxt of a model that was found, with comments on what to fill in."""

from typing import Final

from cluster.repository.model_formats import PYTHON, FoundModel

_TENSORS: Final = """# Fill in: names, datatypes, and dims without the batch; -1 for what varies.
# input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
# output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
_BATCHING: Final = """# How many requests may share an execution; 0 if there is no batch dimension.
# max_batch_size: 8
# dynamic_batching { }
"""


def config_text(found: FoundModel, agents: str = "") -> str:
    """Return the config; empty where the backend completes one from the file alone.

    Args:
        found: The model.
        agents: What has servers decrypt its files; empty where they are plain.
    """
    if not found.needs_config and not agents:
        return ""
    row = found.format
    lines = [f"# Written by Manta. Found: {row.title}, '{row.filename}'.\n"]
    lines.append(f'backend: "{row.backend}"\n')
    if row.platform:
        lines.append(f'platform: "{row.platform}"\n')
    if row.model_type:
        lines.append(
            f'parameters {{ key: "model_type" value: {{ string_value: "{row.model_type}" }} }}\n'
        )
    if found.needs_tensors:
        why = "the class has no auto_complete_config" if row is PYTHON else "the file does not tell"
        lines.append(f"# Inputs and outputs have to be written here: {why}.\n{_TENSORS}")
    else:
        lines.append("# Inputs and outputs are read from the file.\n")
    lines += (_BATCHING, agents)
    return "".join(lines)
