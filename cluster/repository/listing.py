# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which models repositories have: each is listed by itself, and what they come to is one scan.

An error is not an absence: the models of a repository that cannot be listed, or does not answer,
are those of its last listing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_identifier import key_of
from cluster.repository.contents import RepositoryScan
from cluster.repository.model_directory import Place
from cluster.repository.remote import RemoteFileSystem

# Why nothing is known of a repository that hangs.
SILENT_REASON: Final = "the model repository does not answer"


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
            entries = filesystem.entries(path)
            identity = filesystem.identity(path)
        except TritonError as error:
            return Listing(error=error.message)
        names = tuple(e.name for e in entries if e.is_directory and not e.name.startswith("."))
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
