# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What repositories hold: each is listed by itself, and a model of theirs as it was read."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import msgpack

from backends.api.errors import InternalError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import key_of
from cluster.repository.agents.prepared import PreparedFiles
from cluster.repository.model_directory import Place
from cluster.repository.remote import RemoteFileSystem
from deployments.model_files.contracts import ModelFiles

# Why nothing is known of a repository that hangs.
SILENT_REASON: Final = "the model repository does not answer"


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


@dataclass(frozen=True, slots=True)
class Listing:
    """One repository as it was listed.

    Attributes:
        names: Its models; None where it could not be listed.
        identity: What tells its directory from another that is put in its place.
        digests: By model in a store: digest of all its files.
        error: Why the models are not those of now.
    """

    names: tuple[str, ...] | None = None
    identity: str = ""
    digests: Mapping[str, bytes] = field(default_factory=dict)
    error: str = ""


@dataclass(slots=True, eq=False)
class Listings:
    """Lists repositories, and remembers of each the last listing.

    An error is not an absence: the models of a repository that cannot be listed, or does not
    answer, are those of its last listing.

    Attributes:
        roots: By location.
        has_namespaces: Whether each repository has its own names.
    """

    roots: Mapping[str, Place]
    has_namespaces: bool = field(kw_only=True)
    _last: dict[str, Listing] = field(default_factory=dict)

    @property
    def stores(self) -> frozenset[str]:
        """Paths of the repositories in stores, whose clients give up by themselves."""
        roots = self.roots.values()
        return frozenset(r.path for r in roots if isinstance(r.filesystem, RemoteFileSystem))

    def is_there(self, path: str) -> bool:
        """Whether there is a directory at a repository's path."""
        return self._at(path).filesystem.is_directory(path)

    def look(self, path: str) -> Listing:
        """List the models of the repository at a path; hidden directories are no models."""
        root = self._at(path)
        filesystem = root.filesystem
        try:
            found = filesystem.directories(path)
            identity = filesystem.identity(path)
        except TritonError as error:
            return Listing(error=error.message)
        names = tuple(name for name in found if not name.startswith("."))
        if isinstance(filesystem, RemoteFileSystem):
            return Listing(names, identity, filesystem.digests, filesystem.error)
        return Listing(names, identity)

    def gathered(self, listings: Mapping[str, Listing]) -> RepositoryScan:
        """Return what the listings of all repositories come to.

        Args:
            listings: By path; one that is missing has not answered.
        """
        found: dict[str, str] = {}
        duplicates, errors, stale = set(), {}, set()
        digests: dict[str, bytes] = {}
        identities: dict[str, str] = {}
        for location, root in self.roots.items():
            namespace, path = location if self.has_namespaces else "", root.path
            listing = listings.get(path, Listing(error=SILENT_REASON))
            if listing.names is None:
                known = replace(self._last.get(path, Listing()), error=listing.error)
            else:
                known = self._last[path] = listing
                identities[path] = listing.identity
            if known.error:
                errors[path] = known.error
                if known.names is not None:
                    stale.add(path)
            digests |= {key_of(namespace, name): each for name, each in known.digests.items()}
            for name in known.names or ():
                key = key_of(namespace, name)
                if key in found:
                    duplicates.add(key)
                found.setdefault(key, f"{path}/{name}")
        return RepositoryScan(
            dict(sorted(found.items())),
            frozenset(duplicates),
            errors,
            frozenset(stale),
            digests,
            identities,
        )

    def _at(self, path: str) -> Place:
        return next(root for root in self.roots.values() if root.path == path)
