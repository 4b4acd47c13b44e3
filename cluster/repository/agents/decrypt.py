# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent ``decrypt``: files that lie encrypted in the repository, with AES-256-GCM.

Parameters: ``files``, patterns of the files (default ``*.enc``); ``key_file``, a file with the key,
or ``key_env``, an environment variable with it. The key itself is never in a config. A key is 32
bytes: as they are (files only), as 64 hex digits, or in base64. ``name.enc`` becomes ``name``; a
file with another ending is replaced.

Format, whole numbers big-endian::

    header   magic 8 bytes "MANTAENC", version 1 byte, chunk size 4 bytes, salt 32 bytes
    chunks   ciphertext of a chunk's size (the last: of less or as much), tag 16 bytes

The key of a file is HKDF-SHA256(key, salt, "manta decrypt 1"). The nonce of a chunk is its number
in 11 bytes and a byte that is 1 for the last; the header is additional data of each. So parts can
neither be changed, left out, moved nor put in from another file, and memory is a few chunks'.
"""

import base64
import binascii
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.parameters import (
    absolute,
    check_parameters,
    matching,
    needing_cryptography,
)
from cluster.repository.filesystem import reason_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SUFFIX: Final = ".enc"
KEY_BYTES: Final = 32
CHUNK_BYTES: Final = 1 << 20
_MAX_CHUNK_BYTES: Final = 16 << 20
_MAX_KEY_FILE_BYTES: Final = 1024
_TAG_BYTES: Final = 16
_SALT_BYTES: Final = 32
_MAGIC: Final = b"MANTAENC"
_VERSION: Final = 1
_INFO: Final = b"manta decrypt 1"
_HEADER: Final = struct.Struct(f">8sBI{_SALT_BYTES}s")
_PARTIAL: Final = ".partial"
_KEY_FILE, _KEY_ENV, _FILES = "key_file", "key_env", "files"


class DecryptAgent:
    """Decrypts files; see the module."""

    changes_files = True
    replaces_files = True

    def act(self, action: Action, model: AgentModel) -> None:
        """See `RepositoryAgent`.

        Raises:
            InvalidArgumentError: A parameter is none, the key cannot be read, there is no such
                file, or one is not encrypted or not with this key.
            UnavailableError: The package cryptography is not installed.
        """
        if action is not Action.LOAD:
            return
        check_parameters("decrypt", model, {_KEY_FILE, _KEY_ENV, _FILES})
        key = _key(model)
        for path in matching("decrypt", model, model.parameters.get(_FILES, f"*{SUFFIX}")):
            source = model.directory / path
            plain = path.removesuffix(SUFFIX)
            target = model.directory / plain
            if target != source and target.exists():
                raise InvalidArgumentError(
                    f"file '{path}' of model '{model.name}' cannot be decrypted: '{plain}' is there"
                    " already; remove one of them"
                )
            try:
                decrypt_file(source, target, key)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"file '{path}' of model '{model.name}' cannot be decrypted: {error.message}"
                ) from error
            if target != source:
                source.unlink()


def encrypt_file(source: Path, target: Path, key: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Encrypt a file; readers of ``target`` see all of it or nothing.

    Args:
        source: Plain file.
        target: Where to; may be ``source``.
        key: 32 bytes; see `read_key`.
        chunk_bytes: Size of what is read at a time, at most 16 MiB.

    Raises:
        InvalidArgumentError: Key or chunk size has another length.
        UnavailableError: The package cryptography is not installed.
        OSError: A file cannot be read or written.
    """
    if not 0 < chunk_bytes <= _MAX_CHUNK_BYTES:
        raise InvalidArgumentError(
            f"chunks of {chunk_bytes} bytes, 1 to {_MAX_CHUNK_BYTES} allowed"
        )
    salt = os.urandom(_SALT_BYTES)
    header = _HEADER.pack(_MAGIC, _VERSION, chunk_bytes, salt)
    cipher = _cipher(key, salt)
    with source.open("rb") as plain, _Replacement(target) as sealed:
        sealed.write(header)
        for number, (chunk, is_last) in enumerate(_chunks(plain, chunk_bytes)):
            sealed.write(cipher.encrypt(_nonce(number, is_last=is_last), chunk, header))


def decrypt_file(source: Path, target: Path, key: bytes) -> None:
    """Decrypt a file; readers of ``target`` see all of it, verified, or nothing.

    Args:
        source: What `encrypt_file` has made.
        target: Where to; may be ``source``.
        key: 32 bytes; see `read_key`.

    Raises:
        InvalidArgumentError: It is no such file, or it was changed, or encrypted with another key.
        UnavailableError: The package cryptography is not installed.
        OSError: A file cannot be read or written.
    """
    with needing_cryptography("decryption of models"):
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra
    with source.open("rb") as sealed, _Replacement(target) as plain:
        header = sealed.read(_HEADER.size)
        chunk_bytes, salt = _parse_header(header)
        cipher = _cipher(key, salt)
        for number, (chunk, is_last) in enumerate(_chunks(sealed, chunk_bytes + _TAG_BYTES)):
            try:
                opened = cipher.decrypt(_nonce(number, is_last=is_last), chunk, header)
            except InvalidTag:
                raise InvalidArgumentError(
                    "it was encrypted with another key, or has been changed or cut since"
                ) from None
            plain.write(opened)


def read_key(content: bytes, where: str) -> bytes:
    """Return the 32 bytes that a file or a variable has as they are, in hex or in base64.

    Raises:
        InvalidArgumentError: They are not; the message does not show them.
    """
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    decoders = (binascii.unhexlify, lambda given: base64.b64decode(given, validate=True))
    for decode in decoders:
        try:
            key = decode(text)
        except ValueError:
            continue
        if len(key) == KEY_BYTES:
            return key
    raise InvalidArgumentError(
        f"{where} holds no key: expected {KEY_BYTES} bytes, 64 hex digits or their base64"
    )


def _key(model: AgentModel) -> bytes:
    parameters = model.parameters
    given = [name for name in (_KEY_FILE, _KEY_ENV) if name in parameters]
    if len(given) != 1:
        raise InvalidArgumentError(
            f"repository agent 'decrypt' of model '{model.name}' needs its key from one place: give"
            f" either '{_KEY_FILE}' or '{_KEY_ENV}'"
        )
    if given == [_KEY_ENV]:
        variable = parameters[_KEY_ENV]
        # The controller's process, or that of the node's files, has it from who started it.
        value = os.environ.get(variable)
        if value is None:
            raise InvalidArgumentError(
                f"environment variable '{variable}', named by '{_KEY_ENV}' of repository agent "
                f"'decrypt' of model '{model.name}', is not set where the server runs"
            )
        return read_key(value.encode(), f"environment variable '{variable}'")
    path = absolute("decrypt", model, _KEY_FILE, parameters)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise InvalidArgumentError(
            f"key file '{path}' of repository agent 'decrypt' of model '{model.name}' cannot be "
            f"read: {reason_of(error)}"
        ) from None
    return read_key(content, f"key file '{path}'")


def _cipher(key: bytes, salt: bytes) -> "AESGCM":
    if len(key) != KEY_BYTES:
        raise InvalidArgumentError(f"a key of {len(key)} bytes, expected {KEY_BYTES}")
    with needing_cryptography("decryption of models"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - an extra
    return AESGCM(HKDF(SHA256(), KEY_BYTES, salt, _INFO).derive(key))


def _parse_header(header: bytes) -> tuple[int, bytes]:
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise InvalidArgumentError("it is not encrypted, or not in the format of this agent")
    _, version, chunk_bytes, salt = _HEADER.unpack(header)
    if version != _VERSION:
        raise InvalidArgumentError(f"its format is {version}, expected {_VERSION}")
    if not 0 < chunk_bytes <= _MAX_CHUNK_BYTES:
        raise InvalidArgumentError(
            f"it has chunks of {chunk_bytes} bytes, 1 to {_MAX_CHUNK_BYTES} allowed"
        )
    return chunk_bytes, salt


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def _chunks(file: BinaryIO, size_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Read a file in parts; also an empty one has a last part."""
    chunk = file.read(size_bytes)
    while following := file.read(size_bytes):
        yield chunk, False
        chunk = following
    yield chunk, True


class _Replacement:
    """Writes a file beside its place and puts it there when all of it has been written."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._partial = target.with_name(f"{target.name}{_PARTIAL}")

    def __enter__(self) -> BinaryIO:
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._file.close()
        if kind is None:
            self._partial.replace(self._target)
        else:
            self._partial.unlink()


AGENT = DecryptAgent()
