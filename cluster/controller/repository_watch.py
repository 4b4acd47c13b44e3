# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What looks at the repositories tell: which are away, which models are unchanged, or gone.

An error is not an absence. A model is gone when its repository was listed without it: not while the
repository cannot be listed, nor on the first listing that has no model at all. An empty directory
may be the place where a file system is not mounted at the moment.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cluster.repository.contents import RepositoryScan

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class RepositoryWatch:
    """The state of the repositories. Pure but for its log; one thread.

    Attributes:
        changed: Called when one goes away or comes back.
        errors: By repository that cannot be listed: why.
        is_complete: Whether the models of each repository are known, if only from earlier.
        unread: Models that could not be read when they were last tried, and may be later.
    """

    changed: Callable[[], None] = lambda: None
    _paths: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = True
    _directories: Mapping[str, str] = field(default_factory=dict)
    _digests: Mapping[str, bytes] = field(default_factory=dict)
    _read: dict[str, tuple[bytes, tuple[int, ...] | None]] = field(default_factory=dict)
    # By model that was ever listed: its repository, at last.
    _homes: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    # By repository: the identity of its directory when it had models.
    _identities: dict[str, str] = field(default_factory=dict)
    # By repository that was listed without a model: the identity of its directory.
    _empty: Mapping[str, str] = field(default_factory=dict)
    # Those that were so at the look before.
    _empty_before: frozenset[str] = frozenset()
    _kept_count: int = 0

    def follow(self, paths: Iterable[str]) -> None:
        """Note which repositories there are, without credentials."""
        self._paths = tuple(paths)

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
        self.is_complete = scan.stale.issuperset(scan.errors)
        self._directories = scan.directories
        self._homes.update((name, _home(path)) for name, path in scan.directories.items())
        listed = scan.identities.items()
        with_models = frozenset(map(_home, scan.directories.values()))
        self._identities.update((path, each) for path, each in listed if path in with_models)
        self._empty = {path: each for path, each in listed if path not in with_models}
        self._digests = scan.digests
        self._read = {name: read for name, read in self._read.items() if name in scan.digests}
        if has_changed:
            self.changed()

    def note_read(self, name: str, digest: bytes, gpu_ids: tuple[int, ...] | None) -> None:
        """Note that a model in a store was read as it was with a digest.

        Args:
            name: The model.
            digest: Of all its files.
            gpu_ids: The GPUs that it was read for; None for one that is the same for any.
        """
        self._read[name] = (digest, gpu_ids)

    def note_unread(self, name: str, *, may_pass: bool) -> None:
        """Note what came of reading a model; ``may_pass``: nothing, for a reason that may pass."""
        (self.unread.add if may_pass else self.unread.discard)(name)

    def home_of(self, name: str) -> str:
        """Return the repository that a model was in at last; empty where no listing has told."""
        return self._homes.get(name, "")

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
            if (digest := self._digests.get(name)) is not None
            and self._read.get(name) in {(digest, gpu_ids), (digest, None)}
        )

    def away(self, names: Iterable[str]) -> frozenset[str]:
        """Return those models whose repository cannot be listed: they stay as they are."""
        return frozenset(name for name in names if self.errors and self.reason_of(name))

    def gone(self, names: Iterable[str]) -> list[str]:
        """Return those of models that are in no repository any more, and say what is kept, and why.

        To be called once for each look, before anything else happens: which repositories have no
        model is held against the next call.

        Args:
            names: Loaded models that the last listing is without.
        """
        names = list(names)
        doubted = self._doubted(Counter(self._homes.get(name, "") for name in names))
        gone = [name for name in names if not self._is_kept(name, doubted)]
        for path in self._empty.keys() & self._empty_before - doubted:
            count = sum(self._homes.get(name, path) == path for name in gone)
            if count:
                text = "model repository '%s' again lists no model; %d are unloaded"
                _log.warning(text, path, count)
        self._empty_before = frozenset(self._empty)
        kept_count = 0 if self.is_complete else len(names) - len(gone)
        if kept_count > self._kept_count:
            text = "%d models go on being served that no listing has: not all repositories have one"
            _log.warning(text, kept_count)
        self._kept_count = kept_count
        return gone

    def _doubted(self, counts: Mapping[str, int]) -> frozenset[str]:
        """Return the repositories that are empty for the first time, and say so.

        Args:
            counts: How many loaded models of each are not listed; of "" those of which no listing
                has told, as after a restart.
        """
        doubted = set()
        for path, identity in self._empty.items():
            count = counts.get(path, 0) or counts.get("", 0)
            # Who removes the last model leaves the directory as it is.
            is_by_hand = count == 1 and self._identities.get(path) == identity
            if count and not is_by_hand and path not in self._empty_before:
                doubted.add(path)
                _log.warning(
                    "model repository '%s' lists no model any more; what is served goes on (%d"
                    " models), and is unloaded if the next listing has none either",
                    path,
                    count,
                )
        return frozenset(doubted)

    def _is_kept(self, name: str, doubted: frozenset[str]) -> bool:
        home = self._homes.get(name)
        if home is None:
            # Which repository it is from is not known.
            return bool(doubted) or not self.is_complete
        return home in doubted

    def reason_of(self, name: str) -> str:
        """Say what keeps a model from being followed; empty when nothing does."""
        directory = self._directories.get(name, "")
        path = _home(directory)
        if path not in self.errors:
            return ""
        return f"model repository '{path}' cannot be listed: {self.errors[path]}"


def _home(directory: str) -> str:
    """Return the repository of a model's directory."""
    return directory.rpartition("/")[0]
