# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what the command line names as a place of files. Pure.

Triton: core/src/filesystem/implementations/{s3,gcs,as}.h ParsePath, CleanPath @05295b7
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fsspec.registry import known_implementations

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError

_AZURE_SUFFIX: Final = ".blob.core.windows.net"
_AZURE: Final = re.compile(r"as://([^/]+)/([^/?]+)(?:/([^?]*))?(\?.*)?", re.DOTALL)
_S3_ENDPOINT: Final = re.compile(
    r"(?:(?P<scheme>https?://)(?P<named>[^/]+)|(?P<host>[0-9a-zA-Z\-.]+:[0-9]+))(?:/(?P<rest>.*))?",
    re.DOTALL,
)
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*)://")
_SLASHES: Final = re.compile("/+")
# What has a bucket is shown with it.
_WITH_BUCKET: Final = frozenset({"s3", "gs", "as", "hf", "mlflow"})
# What has a name there that no user stands before.
_WITHOUT_USER: Final = frozenset({"s3", "gs", "as", "hf"})
_HUB: Final = re.compile(r"([\w.\-]+/[\w.\-]+(?:@[^/@]+)?)(?:/(.*))?", re.DOTALL)
# What the Hub has beside models.
_NO_OWNERS: Final = frozenset({"datasets", "spaces", "models", "buckets"})
_REGISTRY: Final = re.compile(
    r"(?P<scheme>https?://)?(?P<host>[^/]+)/models/(?P<name>[^/@]+)(?P<alias>@[\w\-]+)?"
    r"(?:/(?P<rest>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Location:
    """A directory in a store.

    Attributes:
        scheme: ``file``, ``s3``, ``gs``, ``as``, ``hf``, ``mlflow``, or another protocol of fsspec.
        path: Below the bucket, without slashes around it; a local directory as it was given;
            with another protocol the whole of its URL without query and user.
        bucket: Bucket or container; ``org/name`` or ``org/name@revision`` of the Hugging Face Hub;
            ``models/name``, ``models/name/version`` or ``models/name@alias`` of MLflow; empty for
            ``file`` and other protocols.
        endpoint: URL of the service, where the location names one; empty for the cloud's own.
        account: Azure's storage account.
        url: With another protocol: its URL as given, maybe with user and password.
    """

    scheme: str
    path: str
    bucket: str = ""
    endpoint: str = ""
    account: str = ""
    url: str = ""

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"

    def __str__(self) -> str:
        """Render as the command line may name it, without credentials."""
        if self.scheme not in _WITH_BUCKET:
            return self.path
        # Triton's default for an endpoint is http.
        host = f"{self.endpoint.removeprefix('http://')}/" if self.endpoint else ""
        host = f"{self.account}/" if self.scheme == "as" else host
        return f"{self.scheme}://{host}{self.bucket}" + (f"/{self.path}" if self.path else "")

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of this machine."""
        return self.scheme == "file"

    def below(self, path: str) -> "Location":
        """Return the location of a directory in this one."""
        if not path:
            return self
        joined = f"{self.path.rstrip('/')}/{path}" if self.path else path
        return replace(self, path=joined, url=f"{self.url}/{path}" if self.url else "")


def parse_location(text: str) -> Location:
    """Read a location.

    Raises:
        InternalError: It names no bucket, or is no path in Azure.
        InvalidArgumentError: It is an S3 location of slashes only, or one with a password.
        UnsupportedError: There is no such scheme.
    """
    scheme, is_given = _scheme_of(text)
    if not is_given:
        return Location("file", text)
    if scheme in _WITHOUT_USER and "@" in text.partition("://")[2].partition("/")[0]:
        raise InvalidArgumentError(
            f"a location of {scheme}:// must not hold user and password; put them into the"
            " environment or TRITON_CLOUD_CREDENTIAL_PATH"
        )
    return _PARSERS.get(scheme, _parse_other)(text)


def _scheme_of(text: str) -> tuple[str, bool]:
    match = _SCHEME.match(text)
    return (match[1].lower(), True) if match else ("", False)


def _parse_local(text: str) -> Location:
    return Location("file", text.partition("://")[2])


def _parse_s3(text: str) -> Location:
    rest = text.partition("://")[2]
    if not rest.strip("/"):
        raise InvalidArgumentError(f"Invalid bucket name: '{rest}'")
    rest = rest.lstrip("/")
    endpoint = ""
    match = _S3_ENDPOINT.fullmatch(rest)
    if match:
        endpoint = (match["scheme"] or "http://") + (match["named"] or match["host"])
        if "@" in endpoint:
            raise InvalidArgumentError(
                "an S3 endpoint must not hold user and password; put them into the environment "
                "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or TRITON_CLOUD_CREDENTIAL_PATH"
            )
        rest = match["rest"] or ""
    bucket, _, path = _SLASHES.sub("/", rest.strip("/")).partition("/")
    if not bucket:
        raise InternalError(f"No bucket name found in path: {text}")
    return Location("s3", path, bucket, endpoint)


def _parse_gs(text: str) -> Location:
    bucket, _, path = text.partition("://")[2].partition("/")
    if not bucket:
        raise InternalError(f"No bucket name found in path: {text}")
    return Location("gs", path.strip("/"), bucket)


def _parse_as(text: str) -> Location:
    match = _AZURE.fullmatch(text)
    if match is None:
        # What follows a question mark may be a signature.
        raise InternalError(f"Invalid azure storage path: {text.partition('?')[0]}")
    host, container, path = match[1], match[2], match[3] or ""
    account = host.removesuffix(_AZURE_SUFFIX)
    # Of another cloud of Azure's: its host is the endpoint.
    endpoint = f"https://{host}" if ".blob." in account else ""
    return Location("as", path.strip("/"), container, endpoint, account)


def _parse_hf(text: str) -> Location:
    match = _HUB.fullmatch(text.partition("://")[2].rstrip("/"))
    if match is None or match[1].partition("/")[0] in _NO_OWNERS:
        raise InvalidArgumentError(
            f"model repository '{text}' must be like hf://org/name or hf://org/name@revision, with "
            "%2F for a slash in the revision"
        )
    return Location("hf", match[2] or "", match[1])


def _parse_mlflow(text: str) -> Location:
    match = _REGISTRY.fullmatch(text.partition("://")[2].rstrip("/"))
    if match is None or "@" in match["host"]:
        # What precedes an @ may be a password.
        host = match["host"].rpartition("@")[2] if match else text.partition("://")[2]
        raise InvalidArgumentError(
            f"model repository 'mlflow://{host.rpartition('@')[2]}' must be like "
            "mlflow://host:port/models/NAME, .../NAME/VERSION or .../NAME@ALIAS, with https:// "
            "before the host for TLS and without user and password, which belong into "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    bucket, rest = f"models/{match['name']}{match['alias'] or ''}", match["rest"] or ""
    version, _, path = rest.partition("/")
    # A model's directory in a repository of one model has its name twice.
    if version.isdecimal() and not match["alias"] and rest != match["name"]:
        bucket, rest = f"{bucket}/{version}", path
    return Location("mlflow", rest, bucket, (match["scheme"] or "http://") + match["host"])


def _parse_other(text: str) -> Location:
    scheme = _scheme_of(text)[0]
    shown = urlsplit(text)
    host = shown.netloc.rpartition("@")[2]
    if scheme not in known_implementations:
        # What precedes an @, or follows a question mark, may be a password.
        raise UnsupportedError(
            f"model repository '{scheme}://{host}{shown.path}': scheme '{scheme}' is not supported,"
            " expected a local directory, s3://, gs://, as://, hf://, mlflow://, or a protocol of"
            " fsspec"
        )
    return Location(scheme, f"{scheme}://{host}{shown.path}".rstrip("/"), url=text.rstrip("/"))


_PARSERS: Final[Mapping[str, Callable[[str], Location]]] = {
    "file": _parse_local,
    "local": _parse_local,
    "s3": _parse_s3,
    "gs": _parse_gs,
    "as": _parse_as,
    "hf": _parse_hf,
    "mlflow": _parse_mlflow,
}


def absolute(location: Location) -> Location:
    """Return a local location with its path absolute."""
    return replace(location, path=str(Path(location.path).absolute()))
