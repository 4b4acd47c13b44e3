# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Model repositories of the Hugging Face Hub, through its HTTP API.

What is listed is the tree of one commit, and files are read of that commit. A file's stamp is its
object in git, or its SHA-256 where it is kept by LFS, so that it tells the content itself.

Hub: huggingface/huggingface_hub src/huggingface_hub/hf_api.py HfApi.model_info, list_repo_tree;
src/huggingface_hub/file_download.py hf_hub_url; src/huggingface_hub/utils/_pagination.py paginate
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote, unquote

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import StatusError
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.http_session import HttpSession, part_of
from cluster.repository.stores.location import Location
from cluster.repository.stores.plain_models import CONFIG_FILE, Shown, find_plain, made_file

_ENDPOINT: Final = "https://huggingface.co"
_DEFAULT_REVISION: Final = "main"
# Larger than any repository of models that can be served.
_MAX_FILES: Final = 100_000
_NEXT: Final = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_MISSING: Final = 404
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


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is shown, and where it comes from: a path of the commit, or a content."""

    stored: StoredFile
    source: str | bytes


@dataclass(frozen=True, slots=True)
class _Tree:
    """All files of a commit, as they are shown, sorted."""

    commit: str
    files: Mapping[str, _File]


def open_hub(location: Location, credential: Credential) -> ObjectClient:
    """Open a repository of the Hub.

    ``bucket`` of the location is ``org/name`` or ``org/name@revision``.
    """
    token = credential.get("token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    endpoint = (credential.get("endpoint") or _ENDPOINT).rstrip("/")
    return _HubClient(location, endpoint, HttpSession(headers, credential.ca_bundle))


class _HubClient:
    def __init__(self, location: Location, endpoint: str, session: HttpSession) -> None:
        self._shown = f"hf://{location.bucket}"
        self._repository, _, revision = location.bucket.partition("@")
        self._revision = unquote(revision) or _DEFAULT_REVISION
        self._endpoint = endpoint
        self._session = session
        self._lock = Lock()
        self._tree: _Tree | None = None

    def list_page(self, prefix: str, token: str) -> Page:
        files = self._refreshed().files.items()
        return Page(tuple(file.stored for path, file in files if path.startswith(prefix)))

    def look(self, key: str) -> StoredFile | None:
        file = self._refreshed().files.get(key)
        return file.stored if file else None

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        tree = self._tree
        file = tree.files.get(key) if tree else None
        # The commit that was listed serves for as long as it has what is wanted.
        if tree is None or file is None or file.stored.stamp != (stamp or file.stored.stamp):
            tree = self._refreshed()
            file = tree.files.get(key)
        if file is None:
            raise StatusError(_MISSING)
        if stamp and file.stored.stamp != stamp:
            raise StatusError(412)
        size = file.stored.size_bytes
        end = size if length_bytes is None else min(size, offset_bytes + length_bytes)
        if isinstance(file.source, bytes):
            return file.source[offset_bytes:end]
        if offset_bytes >= end:
            return b""
        url = f"{self._endpoint}/{self._repository}/resolve/{tree.commit}/{quote(file.source)}"
        part = None if end - offset_bytes == size else (offset_bytes, end)
        return part_of(self._session.get(url, part=part), offset_bytes, end)

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        raise UnsupportedError(f"{self._shown} is only read; publish to another repository")

    def remove(self, key: str) -> None:
        raise UnsupportedError(f"{self._shown} is only read; remove files on the Hub")

    def close(self) -> None:
        self._session.close()

    def _refreshed(self) -> _Tree:
        """Return the tree of the revision's commit now; the one that is known, if it is its."""
        with self._lock:
            commit = self._commit()
            if self._tree is None or self._tree.commit != commit:
                self._tree = _shown(self._repository, commit, list(self._entries(commit)))
            return self._tree

    def _commit(self) -> str:
        url = f"{self._api}/revision/{quote(self._revision, safe='')}"
        try:
            return str(self._session.get(url).json()["sha"])
        except StatusError as error:
            if error.status != _MISSING:
                raise
            raise NotFoundError(
                f"{self._shown}: the Hub has no such repository or revision "
                f"('{self._repository}', '{self._revision}': {error.detail}); check both, and that "
                "HF_TOKEN may see it"
            ) from None

    @property
    def _api(self) -> str:
        return f"{self._endpoint}/api/models/{self._repository}"

    def _entries(self, commit: str) -> Iterator[StoredFile]:
        url = f"{self._api}/tree/{commit}?recursive=true&expand=false"
        count = 0
        while url:
            answer = self._session.get(url)
            for row in answer.json():
                if row["type"] != "file":
                    continue
                count += 1
                if count > _MAX_FILES:
                    raise InternalError(
                        f"{self._shown} has more than {_MAX_FILES} files; a repository of models "
                        "has fewer"
                    )
                yield _stored(row)
            more = _NEXT.search(answer.headers.get("Link", ""))
            # Behind a proxy it may name the Hub's own host.
            url = f"{self._endpoint}/api/{more[1].partition('/api/')[2]}" if more else ""


def _shown(repository: str, commit: str, files: list[StoredFile]) -> _Tree:
    listed = {file.path: file for file in files}
    shown = show_repository(f"hf://{repository}", repository.rpartition("/")[2], listed)
    return _Tree(commit, {path: _file(path, shown[path], listed) for path in sorted(shown)})


def _file(path: str, source: str | bytes, listed: Mapping[str, StoredFile]) -> _File:
    if isinstance(source, bytes):
        return _File(made_file(path, source), source)
    found = listed[source]
    return _File(StoredFile(path, found.size_bytes, found.stamp, sha256=found.sha256), source)


def _stored(row: Mapping[str, Any]) -> StoredFile:
    large = row.get("lfs") or {}
    digest = str(large.get("oid", "")).removeprefix("sha256:")
    size = large.get("size", row.get("size", 0))
    return StoredFile(str(row["path"]), int(size), digest or str(row["oid"]), sha256=digest)
