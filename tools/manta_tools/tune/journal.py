# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What was seen and done, a JSON object on each line; the first holds the config to go back to."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from backends.api.errors import InvalidArgumentError
from manta_tools.tune.records import Decision, Observation


def begun(file: TextIO, at: str, model: str, config: Mapping[str, Any]) -> None:
    """Write with which config a model was served before."""
    _write(file, {"at": at, "model": model, "config": config})


def decided(
    file: TextIO, at: str, seen: Observation, decision: Decision, *, is_applied: bool
) -> None:
    """Write what a period has shown and what followed."""
    row = {"at": at, "seen": asdict(seen), "decision": asdict(decision), "is_applied": is_applied}
    _write(file, row)


def config_before(path: Path, model: str) -> dict[str, Any]:
    """Return the config that a model was served with before.

    Raises:
        InvalidArgumentError: The file does not say.
    """
    try:
        with path.open() as file:
            first = json.loads(file.readline())
            found, config = first["model"], dict(first["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"{path} is no journal of manta tune: {error!r}") from None
    if found != model:
        raise InvalidArgumentError(f"{path} is the journal of model '{found}', not of '{model}'")
    return config


def _write(file: TextIO, row: Mapping[str, Any]) -> None:
    file.write(json.dumps(row) + "\n")
    file.flush()
