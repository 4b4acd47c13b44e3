# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Signs models of a repository in any store: what is there, and what is being added."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from backends.api.errors import InvalidArgumentError, TritonError
from cluster.commands.publish.stored_models import StoredModel, manifest_of
from cluster.commands.publish.targets import Content, described
from cluster.repository.agents.verify import is_signature, read_private_key, signature_of
from cluster.repository.filesystem import CACHE_DIRECTORY
from cluster.repository.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    OWN_FILES,
    SIGNATURE_FILE,
    Manifest,
    ManifestFile,
    compare_files,
    is_plain_path,
    parse_manifest,
    render_manifest,
)
from cluster.repository.repository import INCOMPLETE_FILE
from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.stores.source import digest_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Signer:
    """Signs with one key.

    Args:
        private_key: An Ed25519 key in PEM, without pass phrase.

    Raises:
        InvalidArgumentError: It is none.
        UnavailableError: The package cryptography is not installed.
    """

    def __init__(self, private_key: bytes) -> None:
        self._key: Ed25519PrivateKey = read_private_key(private_key)

    def sign(self, manifest: bytes) -> bytes:
        """Return the content of the signature's file."""
        return signature_of(self._key, manifest)

    def has_signed(self, manifest: bytes, signature: bytes) -> bool:
        """Whether a signature is this key's, over this manifest."""
        return is_signature(self._key.public_key(), signature, manifest)


def sign_stored(store: Store, model: StoredModel, signer: Signer) -> list[str]:
    """Sign a model's versions and what they share, as they are in the repository now.

    A version that has a manifest must be as that says: what has changed since it was published is
    not signed by mistake.

    Returns:
        The directories that were signed, below the repository's.

    Raises:
        InvalidArgumentError: A version differs from its manifest or is incomplete, or a name
            cannot be in a manifest.
        UnavailableError: The store cannot be reached, or refuses.
    """
    signed = {}
    for version in model.versions:
        files = model.version(version)
        where = f"version {version} of model '{model.name}'"
        if INCOMPLETE_FILE in files:
            raise InvalidArgumentError(
                f"{where} is being written, or that was broken off; remove it with 'manta model "
                f"rm {model.name} --version {version}', or wait"
            )
        manifest = _manifest(store, files, where)
        told = manifest_of(store, model, version)
        if told is not None:
            sizes = {path: file.size_bytes for path, file in manifest.files.items()}
            digests = {path: file.sha256 for path, file in manifest.files.items()}
            compare_files(told, where, sizes, digests.__getitem__)
        signed[f"{model.name}/{version}"] = manifest
    if dict(_listed(model.shared)):
        signed[model.name] = _manifest(store, model.shared, f"model '{model.name}'")
    for below, manifest in signed.items():
        content = render_manifest(manifest)
        store.write(f"{below}/{MANIFEST_FILE}", content)
        store.write(f"{below}/{SIGNATURE_FILE}", signer.sign(content))
    return list(signed)


def signed_shared(
    store: Store, model: StoredModel | None, shared: Mapping[str, Content], signer: Signer
) -> dict[str, Content]:
    """Return manifest and signature of the files that versions share, once some are added.

    Args:
        store: The repository.
        model: As it is there; None for a new one.
        shared: What is added, by path in the model's directory.
        signer: With which key.

    Returns:
        By file name; empty where there is nothing to sign, or all of it is signed.

    Raises:
        InvalidArgumentError: Files are there that this key has not signed: somebody has to look at
            them first.
        UnavailableError: The store cannot be reached, or refuses.
    """
    files: dict[str, ManifestFile] = {}
    if model is not None and dict(_listed(model.shared)):
        files |= _signed_by(store, model, signer).files
    if not shared:
        return {}
    files |= {path: described(content) for path, content in shared.items()}
    content = render_manifest(Manifest(files))
    return {MANIFEST_FILE: content, SIGNATURE_FILE: signer.sign(content)}


def _signed_by(store: Store, model: StoredModel, signer: Signer) -> Manifest:
    where = f"model '{model.name}'"
    found = {file.path for file in model.files.values()}
    texts = []
    for name in (MANIFEST_FILE, SIGNATURE_FILE):
        path = f"{model.name}/{name}"
        texts.append(store.read(path, 0, MAX_MANIFEST_BYTES + 1) if path in found else b"")
    try:
        if not signer.has_signed(texts[0], texts[1]):
            raise InvalidArgumentError("there is no signature of it by this key")
        manifest = parse_manifest(texts[0], f"of {where}")
        files = dict(_listed(model.shared))
        sizes = {path: file.size_bytes for path, file in files.items()}
        compare_files(manifest, where, sizes, lambda path: digest_of(store, files[path]))
    except TritonError as error:
        raise InvalidArgumentError(
            f"what the versions of {where} share is not signed with this key: {error.message}; "
            f"look at it, then sign it with 'manta model sign {model.name}'"
        ) from None
    return manifest


def _manifest(store: Store, files: Mapping[str, StoredFile], where: str) -> Manifest:
    made = {}
    for path, file in _listed(files):
        if not is_plain_path(path):
            raise InvalidArgumentError(
                f"file {path!a} of {where} cannot be in a manifest: its name is no plain UTF-8 "
                "path; rename it"
            )
        made[path] = ManifestFile(digest_of(store, file), file.size_bytes)
    return Manifest(made)


def _listed(files: Mapping[str, StoredFile]) -> Iterator[tuple[str, StoredFile]]:
    """Yield those that a manifest lists."""
    for path, file in files.items():
        if path not in OWN_FILES and CACHE_DIRECTORY not in path.split("/")[:-1]:
            yield path, file
