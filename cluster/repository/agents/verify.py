# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent ``verify``: every file of a model is in a manifest that a known key has signed.

Each version's directory needs ``manifest.json`` and ``manifest.sig``, and so does the model's
directory when it has files of its own: a config decides what code runs. ``manifest.sig`` is an
Ed25519 signature over the bytes of ``manifest.json``, in base64 or as its 64 bytes.

Parameter: ``keys``, a PEM file with a public key, or a folder of such files (``*.pem``); default
what ``--trusted-keys`` says. What is verified is a copy, and the copy is what is loaded; nothing
that is put into the repository later, and no bytecode that lies there, is.
"""

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import KEYS, VERIFY, Action, AgentModel
from cluster.repository.agents.manifest import name_of
from cluster.repository.agents.parameters import (
    absolute,
    check_parameters,
    needing_cryptography,
)
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    SIGNATURE_FILE,
    make_manifest,
    parse_manifest,
    verify_manifest,
    version_directories,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_PURPOSE: Final = "verification of signed models"
_SIGNATURE_BYTES: Final = 64
_MAX_SIGNATURE_FILE_BYTES: Final = 1024
_MAX_KEY_FILE_BYTES: Final = 64 << 10
_MAX_KEYS: Final = 1000


class VerifyAgent:
    """Verifies signatures and what they are of; see the module.

    Args:
        copies: Whether a copy of its own, without links, is verified: what is loaded must not
            change with the repository.
    """

    def __init__(self, *, copies: bool = True) -> None:
        self.changes_files = copies

    def act(self, action: Action, model: AgentModel) -> None:
        """See `RepositoryAgent`.

        Raises:
            InvalidArgumentError: The model is not signed by a known key, or a file is missing,
                differs, is not in the manifest or cannot be read.
            UnavailableError: The package cryptography is not installed.
        """
        if action is not Action.LOAD:
            return
        check_parameters(VERIFY, model, {KEYS})
        if KEYS not in model.parameters:
            raise InvalidArgumentError(
                f"repository agent 'verify' of model '{model.name}' knows no keys: give its "
                f"parameter '{KEYS}', or start the server with --trusted-keys"
            )
        try:
            _verify(model, read_keys(absolute(VERIFY, model, KEYS, model.parameters)))
        except OSError as error:
            raise InvalidArgumentError(
                f"the files of model '{model.name}' cannot be verified: {reason_of(error)}"
            ) from None


def read_private_key(content: bytes) -> "Ed25519PrivateKey":
    """Read a key to sign with.

    Args:
        content: An Ed25519 key in PEM, without pass phrase.

    Raises:
        InvalidArgumentError: It is none.
        UnavailableError: The package cryptography is not installed.
    """
    with needing_cryptography("signing of models"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            load_pem_private_key,
        )
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"the key to sign with cannot be read: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidArgumentError(
            "the key to sign with is no Ed25519 key in PEM; make one with 'manta model keygen', or "
            "openssl genpkey -algorithm ed25519"
        )
    return key


def signature_of(key: "Ed25519PrivateKey", manifest: bytes) -> bytes:
    """Return the content of manifest.sig for that of manifest.json."""
    return base64.b64encode(key.sign(manifest)) + b"\n"


def is_signature(key: "Ed25519PublicKey", signature: bytes, manifest: bytes) -> bool:
    """Whether the content of manifest.sig is a key's signature of that of manifest.json."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra

    try:
        key.verify(_parse_signature(signature, "the model"), manifest)
    except (InvalidSignature, InvalidArgumentError):
        return False
    return True


def verify_stand_in(model: AgentModel, version: int) -> None:
    """Verify what the server itself reads of a version in a store; its node verifies all files.

    A config or requirements may have code run before the node has looked at them.

    Args:
        model: ``directory`` has all names of the model's files, and texts; other files are empty.
        version: Which version.

    Raises:
        InvalidArgumentError: As `VerifyAgent.act`.
        UnavailableError: The package cryptography is not installed.
    """
    try:
        keys = read_keys(absolute(VERIFY, model, KEYS, model.parameters))
        versions = version_directories(model.directory)
        shared = _with_files_of_its_own(model, versions)
        for directory in (*shared, *(each for each in versions if int(each.name) == version)):
            where = name_of(model, directory)
            manifest = parse_manifest(_signed(directory, where, keys), f"of {where}")
            found = make_manifest(directory, versions_apart=directory == model.directory)
            for path, file in found.files.items():
                told = manifest.files.get(path)
                # One that is too large for a stand-in is empty there; a config must not be.
                is_text = file.size_bytes > 0 or path.endswith(".pbtxt")
                if told is None or (is_text and told.sha256 != file.sha256):
                    raise InvalidArgumentError(
                        f"file '{path}' of {where} is not as its signed manifest says; sign and "
                        "upload the model again"
                    )
    except OSError as error:
        raise InvalidArgumentError(
            f"the files of model '{model.name}' cannot be verified: {reason_of(error)}"
        ) from None


def read_keys(path: Path) -> "dict[str, Ed25519PublicKey]":
    """Read public keys.

    Args:
        path: A PEM file, or a folder of them.

    Returns:
        Them by file name; at least one.

    Raises:
        InvalidArgumentError: There is none, or one is no Ed25519 key in PEM.
        UnavailableError: The package cryptography is not installed.
        OSError: A file cannot be read.
    """
    with needing_cryptography(_PURPOSE):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PublicKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            load_pem_public_key,
        )
    files = sorted(path.glob("*.pem"))[:_MAX_KEYS] if path.is_dir() else [path]
    keys = {}
    for file in files:
        try:
            key = load_pem_public_key(_read(file, _MAX_KEY_FILE_BYTES))
        except ValueError as error:
            raise InvalidArgumentError(f"trusted key '{file}' cannot be read: {error}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidArgumentError(
                f"trusted key '{file}' is of type {type(key).__name__}, expected an Ed25519 key"
            )
        keys[file.name] = key
    if not keys:
        raise InvalidArgumentError(f"there is no trusted key in folder '{path}' (*.pem)")
    return keys


def _verify(model: AgentModel, keys: "dict[str, Ed25519PublicKey]") -> None:
    versions = version_directories(model.directory)
    # Without versions the model's own manifest is all there is.
    for directory in (*_with_files_of_its_own(model, versions), *versions):
        where = name_of(model, directory)
        content = _signed(directory, where, keys)
        manifest = parse_manifest(content, f"of {where}")
        verify_manifest(directory, manifest, where, versions_apart=directory == model.directory)


def _with_files_of_its_own(model: AgentModel, versions: list[Path]) -> Iterator[Path]:
    if any(child not in versions for child in model.directory.iterdir()) or not versions:
        yield model.directory


def _signed(directory: Path, where: str, keys: "dict[str, Ed25519PublicKey]") -> bytes:
    """Return the content of a directory's manifest once its signature is found good."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra

    for name in (MANIFEST_FILE, SIGNATURE_FILE):
        if not (directory / name).is_file():
            raise InvalidArgumentError(
                f"{where} is not signed: there is no '{name}'; sign the model with a key that the "
                "server trusts"
            )
    content = _read(directory / MANIFEST_FILE, MAX_MANIFEST_BYTES + 1)
    signature = _parse_signature(
        _read(directory / SIGNATURE_FILE, _MAX_SIGNATURE_FILE_BYTES), where
    )
    for key in keys.values():
        try:
            key.verify(signature, content)
        except InvalidSignature:
            continue
        return content
    raise InvalidArgumentError(
        f"the signature of {where} is by no key that the server trusts "
        f"({', '.join(keys)}), or its manifest has been changed since; sign the model again"
    )


def _parse_signature(content: bytes, where: str) -> bytes:
    if len(content) == _SIGNATURE_BYTES:
        return content
    try:
        signature = base64.b64decode(content.strip(), validate=True)
    except binascii.Error:
        signature = b""
    if len(signature) != _SIGNATURE_BYTES:
        raise InvalidArgumentError(
            f"'{SIGNATURE_FILE}' of {where} is no Ed25519 signature: expected {_SIGNATURE_BYTES} "
            "bytes or their base64; sign the model again"
        )
    return signature


def _read(path: Path, limit_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(limit_bytes)


AGENT = VerifyAgent()
