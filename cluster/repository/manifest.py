# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""manifest.json: the files of a directory with their sizes and digests. Pure but for hashing.

Read from a directory of this machine, or from a listing of a store.
``<model>/<version>/manifest.json`` tells of the version's files, ``<model>/manifest.json`` of those
that all versions share: the config, labels, warmup data. Paths are below the manifest's directory.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from backends.api.errors import InvalidArgumentError
from cluster.repository.filesystem import leads_below
from cluster.repository.trees import files_below
from deployments.model_files.contracts import FileChangedError, ModelFile, ModelFiles

if TYPE_CHECKING:
    from cluster.repository.remote import RemoteModel

MANIFEST_FILE: Final = "manifest.json"
SIGNATURE_FILE: Final = "manifest.sig"
MAX_MANIFEST_BYTES: Final = 32 << 20
MAX_FILES: Final = 100_000
_MAX_PATH_CHARACTERS: Final = 4096
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_VERSION: Final = re.compile(r"[0-9]+", re.ASCII)
# Of a directory those that no manifest lists.
OWN_FILES: Final = frozenset({MANIFEST_FILE, SIGNATURE_FILE})


class ManifestFile(msgspec.Struct, frozen=True):
    """One file."""

    sha256: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]


class Manifest(msgspec.Struct, frozen=True):
    """The files of a directory.

    Attributes:
        files: Them, by path below the directory, with ``/``.
    """

    files: dict[str, ManifestFile]


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Read a manifest.

    Args:
        content: Of manifest.json.
        where: Whose it is, for the error.

    Raises:
        InvalidArgumentError: It is too large, no manifest, or a path or digest in it is none.
    """
    if len(content) > MAX_MANIFEST_BYTES:
        raise InvalidArgumentError(
            f"manifest {where} has {len(content)} bytes, at most {MAX_MANIFEST_BYTES} are allowed"
        )
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgumentError(
            f'manifest {where} cannot be read: {error}; expected {{"files": {{"<path>": '
            '{"sha256": "<hex>", "size_bytes": <number>}}}'
        ) from None
    if len(manifest.files) > MAX_FILES:
        raise InvalidArgumentError(
            f"manifest {where} lists {len(manifest.files)} files, at most {MAX_FILES} are allowed"
        )
    for path, file in manifest.files.items():
        if not is_plain_path(path) or path in OWN_FILES:
            raise InvalidArgumentError(
                f"manifest {where} lists '{path[:200]}', expected a path below its directory"
            )
        if _SHA256.fullmatch(file.sha256) is None:
            raise InvalidArgumentError(
                f"manifest {where} has '{file.sha256[:200]}' as sha256 of '{path}', expected 64 "
                "lower-case hex digits"
            )
    return manifest


def render_manifest(manifest: Manifest) -> bytes:
    """Return the content of manifest.json; equal manifests have equal content."""
    ordered = Manifest(dict(sorted(manifest.files.items())))
    return msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n"


def make_manifest(directory: Path, *, versions_apart: bool = False) -> Manifest:
    """Digest all files of a directory but the manifest itself and its signature.

    Args:
        directory: A version's directory, or a model's.
        versions_apart: Whether it is a model's: its versions have manifests of their own.

    Raises:
        InvalidArgumentError: A file's name cannot be written as UTF-8.
        InternalError: The directory cannot be read.
        OSError: A file cannot be read.
    """
    files = {}
    for path in _listed(directory, versions_apart=versions_apart):
        if not is_plain_path(path):
            raise InvalidArgumentError(
                f"file {path!a} of {directory} cannot be in a manifest: its name is no plain "
                "UTF-8 path; rename it"
            )
        files[path] = ManifestFile(file_digest(directory / path), (directory / path).stat().st_size)
    return Manifest(files)


def read_manifest(directory: Path, where: str) -> Manifest | None:
    """Read the manifest of a directory; None when there is none.

    Args:
        directory: Where it is.
        where: What the directory is, for errors: ``version 3 of model 'm'``.

    Raises:
        InvalidArgumentError: As `parse_manifest`.
        OSError: It cannot be read.
    """
    path = directory / MANIFEST_FILE
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return parse_manifest(file.read(MAX_MANIFEST_BYTES + 1), f"of {where}")


def verify_manifest(
    directory: Path, manifest: Manifest, where: str, *, versions_apart: bool = False
) -> None:
    """Compare all files of a directory with a manifest.

    Args:
        directory: A version's directory, or a model's.
        manifest: What it has to hold.
        where: As for `read_manifest`.
        versions_apart: As for `make_manifest`.

    Raises:
        InvalidArgumentError: A file is missing, differs, or is not listed.
        InternalError: The directory cannot be read.
        OSError: A file cannot be read.
    """
    present = _listed(directory, versions_apart=versions_apart)
    sizes = {path: (directory / path).stat().st_size for path in present}
    compare_files(manifest, where, sizes, lambda path: file_digest(directory / path))


def compare_files(
    manifest: Manifest,
    where: str,
    sizes: Mapping[str, int],
    digest_of: Callable[[str], str] | None,
) -> None:
    """Compare the files there are with a manifest.

    Args:
        manifest: What there has to be.
        where: As for `read_manifest`.
        sizes: Size in bytes of each file, without the manifest and its signature.
        digest_of: Gives the SHA-256 of a file; None where contents are not looked at.

    Raises:
        InvalidArgumentError: A file is missing, differs, or is not listed.
    """
    _refuse(where, "is in the manifest and not there", manifest.files.keys() - sizes.keys())
    _refuse(where, "is there and not in the manifest", sizes.keys() - manifest.files.keys())
    for path, file in manifest.files.items():
        if sizes[path] != file.size_bytes:
            raise InvalidArgumentError(
                f"file '{path}' of {where} has {sizes[path]} bytes, the manifest says "
                f"{file.size_bytes}; upload the model again"
            )
    if digest_of is None:
        return
    for path, file in manifest.files.items():
        found = digest_of(path)
        if found != file.sha256:
            raise InvalidArgumentError(
                f"Mismatched SHA256 hash for file {path} of {where}, expect: {file.sha256}, "
                f"got: {found}; upload the model again"
            )


def version_files(model: "RemoteModel", location: str, version: int) -> ModelFiles:
    """Name the files of a version in a store: its directory's, and those that all versions share.

    Returns:
        Them, with the digests that the version's manifest tells, if it has one.

    Raises:
        FileChangedError: The manifest is not the one that was listed, or tells of other files.
        InvalidArgumentError: As `parse_manifest`.
        InternalError: It is too large.
        UnavailableError: It cannot be read.
    """
    own = f"{version}/"
    digests = _listed_digests(model, location, own)
    return ModelFiles(
        location,
        tuple(
            ModelFile(path, file.size_bytes, file.stamp, digests.get(path) or file.sha256)
            for path, file in sorted(model.files.items())
            if not path.endswith("/") and (path.startswith(own) or not _is_of_a_version(path))
        ),
    )


def _listed_digests(model: "RemoteModel", location: str, own: str) -> dict[str, str]:
    """Return digests by path in the model's directory; none without a manifest."""
    if f"{own}{MANIFEST_FILE}" not in model.files:
        return {}
    place = f"{location}/{own}{MANIFEST_FILE}"
    manifest = parse_manifest(model.read_bytes(place, MAX_MANIFEST_BYTES), f"'{place}'")
    for path, told in manifest.files.items():
        file = model.files.get(f"{own}{path}")
        if file is None:
            raise FileChangedError(f"manifest '{place}' lists '{path}', which is not there")
        if told.size_bytes != file.size_bytes:
            raise FileChangedError(
                f"file '{path}' has {file.size_bytes} bytes, manifest '{place}' says "
                f"{told.size_bytes}"
            )
    return {f"{own}{path}": told.sha256 for path, told in manifest.files.items()}


def version_directories(model_directory: Path) -> list[Path]:
    """Return the version directories of a model, ascending."""
    found = [
        child
        for child in model_directory.iterdir()
        if _VERSION.fullmatch(child.name) and child.is_dir()
    ]
    return sorted(found, key=lambda child: (int(child.name), child.name))


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hex digest of a file, read in parts.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(algorithm, usedforsecurity=False)
        ).hexdigest()


def is_plain_path(path: str) -> bool:
    """Whether a path leads below the directory it is relative to, and can be written anywhere."""
    return (
        0 < len(path) <= _MAX_PATH_CHARACTERS
        and "\0" not in path
        and "\\" not in path
        and _is_utf8(path)
        and leads_below(path)
    )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(directory: Path, *, versions_apart: bool) -> Iterable[str]:
    for path in files_below(directory):
        if path not in OWN_FILES and not (versions_apart and _is_of_a_version(path)):
            yield path


def _is_of_a_version(path: str) -> bool:
    top, slash, _ = path.partition("/")
    return bool(slash) and _VERSION.fullmatch(top) is not None


def _refuse(where: str, what: str, paths: Collection[str]) -> None:
    if paths:
        first, others = min(paths), len(paths) - 1
        more = f" (and {others} others)" if others else ""
        raise InvalidArgumentError(
            f"file '{first}'{more} of {where} {what}; upload the model again, or make a new "
            "manifest if that is as it should be"
        )
