# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What repositories hold, and a model of theirs as it was read. Pure data."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import msgpack

from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from cluster.repository.agents.prepared import PreparedFiles
from deployments.model_files.contracts import ModelFiles


class PackedFiles(Mapping[int, ModelFiles]):
    """Files by version, kept small: thousands of loaded models have a hundred files each."""

    def __init__(self, files: Mapping[int, ModelFiles]) -> None:
        self._packed = {
            version: zlib.compress(msgpack.encode(each), 1) for version, each in files.items()
        }

    def __getitem__(self, version: int) -> ModelFiles:
        return msgpack.decode(zlib.decompress(self._packed[version]), type=ModelFiles)

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


@dataclass(frozen=True, slots=True)
class RepositoryModel:
    """A model as read from its directory.

    Attributes:
        name: Model name.
        config: Config with its defaults, but without those of the instance groups.
        model_dir: Local path of the model's directory.
        versions: Versions the policy selects, ascending; may be empty.
        labels: Class labels by output name.
        needs_auto_complete: Whether the backend shall complete the config.
        file_digests: By version: digest of all files it is loaded from but the config.
        warnings: What was ignored, one line each.
        is_temporary: Whether ``model_dir`` was made for this load, and is the caller's to remove.
        files: By version: what nodes fetch; None for a local directory, used where it is.
        agent_keys: Of ``files``, the keys of those that agents run over.
        digest: Of all files as a listing tells; empty for a local directory.
        prepared: What repository agents have made of its files; the caller's to release.
        namespace: The repository it is in; empty without namespacing, and when its files came
            with the load.
    """

    name: str
    config: ModelConfig
    model_dir: str
    versions: tuple[int, ...]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_auto_complete: bool = True
    file_digests: Mapping[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    is_temporary: bool = False
    files: Mapping[int, ModelFiles] | None = None
    agent_keys: tuple[str, ...] = ()
    digest: bytes = b""
    prepared: PreparedFiles | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryScan:
    """What the repositories hold now.

    Attributes:
        directories: Directory of each model, by key, sorted.
        duplicates: Keys found in more than one repository; they cannot be loaded.
        errors: Repositories that could not be listed, with the reason.
        stale: Of those, the ones whose models are those of an earlier listing.
        digests: By model in a store: digest of all its files.
        identities: By repository that could be listed: what tells its directory from another that
            is put in its place.
    """

    directories: Mapping[str, str]
    duplicates: frozenset[str] = frozenset()
    errors: Mapping[str, str] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    digests: Mapping[str, bytes] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)


def require_listed(scan: RepositoryScan) -> None:
    """Refuse a scan that found nothing because repositories cannot be listed.

    Raises:
        InternalError: The message says why of each.
    """
    if scan.errors and not scan.directories:
        raise InternalError("; ".join(scan.errors.values()))
