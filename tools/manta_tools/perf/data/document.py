# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What all JSON files of data have in common."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.api.errors import InvalidArgumentError


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the document of a file; its ``data`` is a list.

    Raises:
        InvalidArgumentError: It cannot be read, or has no such list; with perf_analyzer's texts.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"failed to parse the specified json file for reading provided data: {path}: {error}"
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise InvalidArgumentError(
            f'The json file doesn\'t contain data field: {path}: expected {{"data": [...]}}'
        )
    return document
