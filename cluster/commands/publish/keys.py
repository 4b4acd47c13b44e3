# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes and reads the keys that models are signed and encrypted with."""

import os
import secrets
from pathlib import Path
from typing import Final

from backends.api.errors import AlreadyExistsError, InvalidArgumentError
from cluster.repository.agents.decrypt import KEY_BYTES, read_key
from cluster.repository.agents.parameters import needing_cryptography
from cluster.repository.filesystem import reason_of

_PUBLIC: Final = ".pub.pem"
_MAX_KEY_FILE_BYTES: Final = 64 << 10


def make_signing_key(path: Path) -> Path:
    """Write an Ed25519 key in PEM, which only its owner can read, and its public key beside it.

    Returns:
        Where the public key is: ``release.pub.pem`` for ``release.pem``.

    Raises:
        AlreadyExistsError: One of the files is there already.
        UnavailableError: The package cryptography is not installed.
        OSError: A file cannot be written.
    """
    with needing_cryptography("signing of models"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )
    public = path.with_name(path.name.removesuffix(".pem") + _PUBLIC)
    key = Ed25519PrivateKey.generate()
    private_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public_pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _write(public, public_pem, 0o644)
    try:
        _write(path, private_pem, 0o600)
    except BaseException:
        public.unlink()
        raise
    return public


def make_encryption_key(path: Path) -> None:
    """Write a key of 32 bytes as hex digits, which only its owner can read.

    Raises:
        AlreadyExistsError: The file is there already.
        OSError: It cannot be written.
    """
    _write(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode(), 0o600)


def read_encryption_key(path: Path) -> bytes:
    """Return the 32 bytes of a key file.

    Raises:
        InvalidArgumentError: It cannot be read, or holds no key.
    """
    return read_key(read_key_file(path), f"key file '{path}'")


def read_key_file(path: Path) -> bytes:
    """Return what is in a file with a key.

    Raises:
        InvalidArgumentError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise InvalidArgumentError(
            f"key file '{path}' cannot be read: {reason_of(error)}; make one with 'manta model "
            "keygen'"
        ) from None


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise AlreadyExistsError(
            f"'{path}' is there already; a key is never replaced: name another file"
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
