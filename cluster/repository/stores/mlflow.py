# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Registered models of an MLflow tracking server, through its REST API.

A registered model is a model of a repository, and its versions are the model's versions. What all
versions share, a config and labels, is that of the newest. A registered version does not change, so
what it consists of is looked up once.

MLflow: mlflow/mlflow mlflow/protos/model_registry.proto getModelVersion, searchModelVersions,
getModelVersionByAlias, getModelVersionDownloadUri; mlflow/utils/rest_utils.py http_request
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Final
from urllib.parse import quote, urlsplit

from backends.api.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.credentials import Credential
from cluster.repository.stores.errors import StatusError
from cluster.repository.stores.fsspec_store import ObjectClient, Page
from cluster.repository.stores.http_session import HttpSession
from cluster.repository.stores.location import Location
from cluster.repository.stores.mlflow_artifacts import (
    API,
    Artifacts,
    ProxyArtifacts,
    StoreArtifacts,
)
from cluster.repository.stores.mlflow_flavours import MLMODEL_FILE, show_artifacts
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.plain_models import PlainModel, Shown, made_file

_REST: Final = "/api/2.0/mlflow"
_READY: Final = "READY"
_PAGE: Final = 1_000
_MISSING: Final = 404
_GONE: Final = frozenset({_MISSING, 412})
# Of artifact locations, the ones that stores here have by the same name.
_SCHEMES: Final = frozenset({"s3", "gs", "file", ""})


@dataclass(frozen=True, slots=True)
class _Version:
    """A registered version: number, and what is another one for another version."""

    number: int
    identity: str


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is shown: what is listed of it, and where it lies, or its content."""

    shown: StoredFile
    source: StoredFile | bytes


@dataclass(frozen=True, slots=True)
class _Model:
    """What a version consists of.

    Attributes:
        version: Which.
        filename: Triton's name of its file; empty where it cannot be served.
        problem: Why it cannot.
        artifacts: Reads it.
        own: Files of the version's directory, by path in it.
        shared: Files of the model's directory.
    """

    version: _Version
    filename: str
    problem: str
    artifacts: Artifacts
    own: Mapping[str, _File]
    shared: Mapping[str, _File]


def open_mlflow(location: Location, credential: Credential) -> ObjectClient:
    """Open a registered model, or one version of it.

    ``bucket`` of the location is ``models/name``, ``models/name/version`` or ``models/name@alias``.
    """
    return _MlflowClient(location, credential)


class _MlflowClient:
    def __init__(self, location: Location, credential: Credential) -> None:
        self._shown = str(replace(location, path=""))
        self._server = location.endpoint
        named, _, self._alias = location.bucket.removeprefix("models/").partition("@")
        self._name, _, self._number = named.partition("/")
        self._s3_endpoint = credential.get("s3_endpoint")
        self._ca_bundle = credential.ca_bundle
        self._session = HttpSession(_headers(credential), credential.ca_bundle)
        self._lock = RLock()
        self._models: dict[int, _Model] = {}

    def list_page(self, prefix: str, token: str) -> Page:
        with self._lock:
            files = sorted(self._listed(), key=lambda file: file.path)
        return Page(tuple(file for file in files if file.path.startswith(prefix)))

    def look(self, key: str) -> StoredFile | None:
        found = self._find(key, "")
        return replace(found[1].shown, path=key) if found else None

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        found = self._find(key, stamp)
        if found is None:
            raise StatusError(_MISSING)
        model, file = found
        if stamp and file.shown.stamp != stamp:
            raise StatusError(412)
        size = file.shown.size_bytes
        end = size if length_bytes is None else min(size, offset_bytes + length_bytes)
        if isinstance(file.source, bytes):
            return file.source[offset_bytes:end]
        if offset_bytes >= end:
            return b""
        try:
            return model.artifacts.read(file.source, offset_bytes, end, is_pinned=bool(stamp))
        except StatusError as error:
            if error.status in _GONE:
                with self._lock:
                    self._models.pop(model.version.number, None)
            raise

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None:
        raise UnsupportedError(f"{self._shown} is only read; publish to another repository")

    def remove(self, key: str) -> None:
        raise UnsupportedError(f"{self._shown} is only read; delete versions in MLflow")

    def close(self) -> None:
        with self._lock:
            self._models = {}
        self._session.close()

    def _listed(self) -> Iterator[StoredFile]:
        versions = sorted(self._versions(), key=lambda each: each.number, reverse=True)
        if not versions:
            raise NotFoundError(
                f"{self._shown}: registered model '{self._name}' has no version that is ready; "
                "register one, or check the name"
            )
        newest = self._servable(versions[0])
        self._models = {n: m for n, m in self._models.items() if n in {v.number for v in versions}}
        for path, file in newest.shared.items():
            yield replace(file.shown, path=f"{self._name}/{path}")
        for version in versions:
            model = self._model(version)
            # A model of a repository has one config, so one kind of file.
            if model.filename == newest.filename:
                for path, file in model.own.items():
                    yield replace(file.shown, path=f"{self._name}/{version.number}/{path}")

    def _find(self, key: str, stamp: str) -> tuple[_Model, _File] | None:
        name, _, path = key.partition("/")
        top, slash, rest = path.partition("/")
        is_versions = bool(slash) and top.isascii() and top.isdigit()
        if name != self._name:
            return None
        with self._lock:
            model = self._models.get(int(top)) if is_versions else None
            if model is None:
                versions = [self._version(int(top))] if is_versions else self._versions()
                newest = max(versions, key=lambda each: each.number, default=None)
                model = self._servable(newest) if newest else None
        if model is None:
            return None
        file = model.own.get(rest) if is_versions else model.shared.get(path)
        return (model, file) if file else None

    def _servable(self, version: _Version) -> _Model:
        model = self._model(version)
        if model.problem:
            raise InvalidArgumentError(
                f"{self._shown}: version {version.number} of registered model '{self._name}' "
                f"cannot be served: {model.problem}"
            )
        return model

    def _model(self, version: _Version) -> _Model:
        known = self._models.get(version.number)
        if known is None or known.version != version:
            known = self._models[version.number] = self._describe(version)
        return known

    def _describe(self, version: _Version) -> _Model:
        artifacts = self._artifacts(version)
        listed = {file.path: file for file in artifacts.find()}
        about = listed.get(MLMODEL_FILE)
        if about is None:
            shown: PlainModel | str = f"its artifact has no file {MLMODEL_FILE}"
        else:
            text = artifacts.read(about, 0, about.size_bytes, is_pinned=False)
            shown = show_artifacts(listed, text)
        if isinstance(shown, str):
            return _Model(version, "", shown, artifacts, {}, {})
        return _Model(
            version,
            shown.filename,
            "",
            artifacts,
            dict(_files(shown.version, listed)),
            dict(_files(shown.shared, listed)),
        )

    def _artifacts(self, version: _Version) -> Artifacts:
        said = self._ask(
            "model-versions/get-download-uri", name=self._name, version=str(version.number)
        )
        uri = str(said["artifact_uri"])
        at = urlsplit(uri)
        if at.scheme == "mlflow-artifacts":
            scheme = urlsplit(self._server).scheme
            url = f"{scheme}://{at.netloc}" if at.netloc else self._server
            return self._proxied(url, at.path, version)
        if at.scheme in {"http", "https"} and API in uri:
            url, _, path = uri.partition(API)
            return self._proxied(url, path, version)
        if at.scheme not in _SCHEMES:
            raise UnsupportedError(
                f"{self._shown}: artifacts of version {version.number} are at '{at.scheme}:', "
                "expected mlflow-artifacts:, s3:, gs: or a directory; start the tracking server "
                "with --serve-artifacts"
            )
        if at.scheme == "s3" and self._s3_endpoint:
            uri = f"s3://{self._s3_endpoint}/{at.netloc}{at.path}"
        return StoreArtifacts(open_store(at.path if at.scheme == "file" else uri))

    def _proxied(self, url: str, path: str, version: _Version) -> Artifacts:
        session = self._session
        if urlsplit(url).netloc != urlsplit(self._server).netloc:
            # Another host has no claim to the credentials.
            session = HttpSession({}, self._ca_bundle)
        return ProxyArtifacts(session, f"{url}{API}", path, version.identity)

    def _versions(self) -> list[_Version]:
        if self._number:
            return [self._version(int(self._number))]
        if self._alias:
            said = self._ask("registered-models/alias", name=self._name, alias=self._alias)
            return list(_ready([said["model_version"]]))
        return list(_ready(self._search()))

    def _version(self, number: int) -> _Version:
        said = self._ask("model-versions/get", name=self._name, version=str(number))
        found = list(_ready([said["model_version"]]))
        if not found:
            raise NotFoundError(f"{self._shown}: version {number} is not ready yet; wait for it")
        return found[0]

    def _search(self) -> Iterator[Mapping[str, Any]]:
        mark = '"' if "'" in self._name else "'"
        given = {"filter": f"name={mark}{self._name}{mark}", "max_results": str(_PAGE)}
        while True:
            said = self._ask("model-versions/search", **given)
            yield from said.get("model_versions", ())
            if not said.get("next_page_token"):
                return
            given["page_token"] = str(said["next_page_token"])

    def _ask(self, method: str, **given: str) -> dict[str, Any]:
        query = "&".join(f"{key}={quote(value, safe='')}" for key, value in given.items())
        try:
            said = self._session.get(f"{self._server}{_REST}/{method}?{query}").json()
        except StatusError as error:
            if error.status != _MISSING:
                raise
            raise NotFoundError(
                f"{self._shown}: the tracking server has no such model, version or alias "
                f"({error.detail}); check the name"
            ) from None
        return dict(said)


def _headers(credential: Credential) -> dict[str, str]:
    user, token = credential.get("username"), credential.get("token")
    if user:
        pair = f"{user}:{credential.get('password')}".encode()
        return {"Authorization": f"Basic {b64encode(pair).decode()}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _ready(rows: Iterable[Mapping[str, Any]]) -> Iterator[_Version]:
    for row in rows:
        if row.get("status", _READY) == _READY:
            identity = f"{row.get('creation_timestamp', '')} {row.get('source', '')}"
            yield _Version(int(row["version"]), identity)


def _files(shown: Shown, listed: Mapping[str, StoredFile]) -> Iterator[tuple[str, _File]]:
    for path, source in shown.items():
        if isinstance(source, bytes):
            yield path, _File(made_file(path, source), source)
        else:
            found = listed[source]
            yield path, _File(replace(found, path=path), found)
