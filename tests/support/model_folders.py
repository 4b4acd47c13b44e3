# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes models into repositories, as servers read them."""

from collections.abc import Iterable
from pathlib import Path


def write_folder(
    repository: Path, name: str, config: str | None, code: str = "", versions: Iterable[int] = (1,)
) -> Path:
    """Write a model and return its folder.

    Args:
        repository: Where.
        name: The model's name.
        config: Its config.pbtxt; None for none.
        code: The model.py of each version; empty for versions without files.
        versions: Its versions.
    """
    folder = repository / name
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        if code:
            (folder / str(version) / "model.py").write_text(code)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder
