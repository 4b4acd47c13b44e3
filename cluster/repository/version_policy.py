# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which directories of a model are versions, and which versions a policy selects.

Triton: core/src/model_repository_manager/model_lifecycle.cc VersionsToLoad @73aad7c
"""

import re
from collections.abc import Iterable

from backends.api.model_config import VersionPolicy

# Directories of a model that hold no version and are no mistake either.
_DATA_DIRECTORIES = frozenset({"warmup", "initial_state", "configs", "__pycache__"})
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_LEADING_ZEROS = re.compile(r"0[0-9]+", re.ASCII)
_MAX_VERSION = 2**63 - 1


def find_versions(directories: Iterable[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Tell version directories from others by their names.

    Returns:
        The version numbers, ascending, and a warning for each directory that is no version.
    """
    versions, warnings = [], []
    for name in directories:
        if name in _DATA_DIRECTORIES:
            continue
        if _NUMBER.fullmatch(name) and int(name) <= _MAX_VERSION:
            versions.append(int(name))
        elif _LEADING_ZEROS.fullmatch(name):
            warnings.append(
                f"ignore version directory '{name}' which contains leading zeros in its directory "
                "name"
            )
        else:
            warnings.append(
                f"ignore version directory '{name}' which fails to convert to integral number"
            )
    return tuple(sorted(versions)), tuple(warnings)


def select_versions(
    model: str, policy: VersionPolicy, available: Iterable[int]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Apply a version policy.

    Returns:
        The versions to load, ascending, and a warning for each version asked for in vain.
    """
    present = sorted(set(available))
    if policy.kind == "latest":
        return tuple(present[-policy.num_versions :] if policy.num_versions else ()), ()
    if policy.kind == "all":
        return tuple(present), ()
    wanted = sorted(set(policy.versions))
    warnings = tuple(
        f"version {version} is specified for model '{model}', but the version directory is not "
        "present"
        for version in wanted
        if version not in present
    )
    return tuple(version for version in wanted if version in present), warnings
