# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shows the files of a repository of the Hugging Face Hub as a Triton repository. Pure."""

import re
from collections.abc import Iterable
from typing import Final

from backends.api.errors import InvalidArgumentError
from cluster.repository.stores.plain_models import CONFIG_FILE, Shown, find_plain

# A version of a model holds at least one of these; folders of numbers may be anything.
_VERSION: Final = re.compile(r"[0-9]+/(?:model\.[^/]+|xgboost\.[^/]+|checkpoint\.tl)(?:/.*)?")
_PAPERS: Final = re.compile(r"(?:README|LICENSE|NOTICE)[^/]*|[^/]*\.md", re.IGNORECASE)


def show_repository(location: str, name: str, paths: Iterable[str]) -> Shown:
    """Return where files are shown, and where they lie.

    Either folders at the top are models of a Triton repository, or the whole is one, or it has one
    model file; the latter two are called as the repository.

    Args:
        location: Of the repository, for messages.
        name: Of the repository, without its owner.
        paths: Of all files.

    Raises:
        InvalidArgumentError: It is none of these.
    """
    visible = sorted(path for path in paths if not path.startswith("."))
    models = {top for top, slash, rest in map(_split, visible) if slash and _is_of_model(rest)}
    if models:
        below = tuple(f"{model}/" for model in models)
        return {path: path for path in visible if path.startswith(below)}
    if any(map(_VERSION.fullmatch, visible)):
        return {f"{name}/{path}": path for path in visible if not _PAPERS.fullmatch(path)}
    found = find_plain(visible)
    if isinstance(found, str):
        raise InvalidArgumentError(
            f"{location} is no model repository: {found}, or the layout of a Triton model "
            f"repository (<model>/{CONFIG_FILE}, <model>/1/model.onnx)"
        )
    own = {f"{name}/1/{path}": source for path, source in found.version.items()}
    return own | {f"{name}/{path}": source for path, source in found.shared.items()}


def _is_of_model(rest: str) -> bool:
    return rest == CONFIG_FILE or _VERSION.fullmatch(rest) is not None


def _split(path: str) -> tuple[str, str, str]:
    return path.partition("/")
