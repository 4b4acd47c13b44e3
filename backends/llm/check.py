# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks a language model's files and config without its engine."""

from backends.api.backend import CheckedFiles, LoadContext
from backends.llm.backend import check_batch_size, completed
from backends.llm.engines import check_model
from backends.llm.files import model_files
from backends.llm.parameters import tool_parser

_LEFT_OPEN = "whether the engine can read the weights"


def check_files(context: LoadContext, *, auto_complete: bool) -> CheckedFiles:
    """Compare config and files; see `backends.api.backend.CheckFiles`."""
    config = context.config
    check_batch_size(config)
    tool_parser(config)
    files = model_files(context)
    check_model(context, files)
    if auto_complete:
        config = completed(config, files)
    return CheckedFiles(config, left_open=(_LEFT_OPEN,))
