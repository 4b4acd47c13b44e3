# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What two versions of models differ in: files, and configs with their defaults."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from backends.config.pbtxt import edit, to_pbtxt
from cluster.commands.publish.stored_models import StoredModel, config_of, manifest_of
from cluster.repository.manifest import OWN_FILES
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.source import digest_of


@dataclass(frozen=True, slots=True)
class Side:
    """One of both: a version of a model in a repository."""

    store: Store
    model: StoredModel
    version: int

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.store.location}/{self.model.name}/{self.version}"


def differences(old: Side, new: Side) -> Iterator[str]:
    """Yield the lines of a unified diff of the configs, then a line for each file that differs.

    Raises:
        TritonError: A file cannot be read.
    """
    yield from difflib.unified_diff(
        _config_lines(old), _config_lines(new), old.title, new.title, lineterm=""
    )
    old_files, new_files = _digests(old), _digests(new)
    for path in sorted(old_files.keys() | new_files.keys()):
        before, after = old_files.get(path), new_files.get(path)
        if before is None and after is not None:
            yield f"only in {new.title}: {path} ({after[1]} bytes)"
        elif after is None and before is not None:
            yield f"only in {old.title}: {path} ({before[1]} bytes)"
        elif before != after and before is not None and after is not None:
            yield f"files differ: {path} ({before[1]} and {after[1]} bytes)"


def _config_lines(side: Side) -> list[str]:
    config, _ = config_of(side.store, side.model)
    # Of two models the names differ anyway.
    nameless = edit(config, lambda message: message.ClearField("name"))
    return to_pbtxt(nameless).splitlines()


def _digests(side: Side) -> dict[str, tuple[str, int]]:
    """Return digest and size of each file; those of a manifest are taken as they are there."""
    manifest = manifest_of(side.store, side.model, side.version)
    listed = {} if manifest is None else manifest.files
    found = {}
    for path, file in side.model.version(side.version).items():
        if path in OWN_FILES:
            continue
        known = listed.get(path)
        is_known = known is not None and known.size_bytes == file.size_bytes
        digest = known.sha256 if known is not None and is_known else digest_of(side.store, file)
        found[path] = (digest, file.size_bytes)
    return found
