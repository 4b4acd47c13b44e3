# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What looks at the repositories tell: which are away, and which models are unchanged."""

import logging
from collections.abc import Callable, Iterable, Mapping

from cluster.repository.contents import RepositoryScan

_log = logging.getLogger(__name__)


class RepositoryWatch:
    """The state of the repositories. Pure but for its log; one thread.

    Args:
        paths: The repositories, without credentials.
        changed: Called when one goes away or comes back.

    Attributes:
        errors: By repository that cannot be listed: why.
        is_complete: Whether the models of each repository are known, if only from earlier.
    """

    def __init__(
        self, paths: Iterable[str] = (), changed: Callable[[], None] = lambda: None
    ) -> None:
        self._paths = tuple(paths)
        self._changed = changed
        self.errors: Mapping[str, str] = {}
        self.is_complete = True
        self._directories: Mapping[str, str] = {}
        self._digests: Mapping[str, bytes] = {}
        self._read: dict[str, tuple[bytes, tuple[int, ...]]] = {}

    @property
    def reachable(self) -> Mapping[str, bool]:
        """By repository: whether it could be listed when it was last tried; one never tried too."""
        return {path: path not in self.errors for path in self._paths}

    def saw(self, scan: RepositoryScan) -> None:
        """Note a listing, and log what has come or gone away with it."""
        for path, error in scan.errors.items():
            if path not in self.errors:
                kept = "; what is served goes on" if path in scan.stale else ""
                _log.error("failed to list model repository '%s': %s%s", path, error, kept)
        for path in self.errors.keys() - scan.errors.keys():
            _log.info("model repository '%s' can be listed again", path)
        has_changed = self.errors.keys() != scan.errors.keys()
        self.errors = scan.errors
        # A local directory that is gone has no models; a store that is away may have.
        self.is_complete = all(path in scan.stale or "://" not in path for path in scan.errors)
        self._directories = scan.directories
        self._digests = scan.digests
        self._read = {name: read for name, read in self._read.items() if name in scan.digests}
        if has_changed:
            self._changed()

    def note_read(self, name: str, digest: bytes, gpu_ids: tuple[int, ...]) -> None:
        """Note that a model in a store was read as it was with a digest, for these GPUs."""
        self._read[name] = (digest, gpu_ids)

    def forget(self, names: Iterable[str]) -> None:
        """Have models read again though nothing has changed."""
        for name in names:
            self._read.pop(name, None)

    def digest_of(self, name: str) -> bytes:
        """Return the digest of a model's files as last listed; empty of one in no store."""
        return self._digests.get(name, b"")

    def unchanged(self, names: Iterable[str], gpu_ids: tuple[int, ...]) -> frozenset[str]:
        """Return those models that need not be read again; none of local directories."""
        return frozenset(
            name
            for name in names
            if name in self._digests and self._read.get(name) == (self._digests[name], gpu_ids)
        )

    def reason_of(self, name: str) -> str:
        """Say what keeps a model from being followed; empty when nothing does."""
        directory = self._directories.get(name, "")
        path = directory.rpartition("/")[0]
        if path not in self.errors:
            return ""
        return f"model repository '{path}' cannot be listed: {self.errors[path]}"
