# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""API keys: how they are made, what is kept of them, and how one is found again. Pure.

A key that `make_key` made is 256 random bits, so that its SHA-256 is as good a secret as any slow
hash and is found by one look-up. A chosen one, such as the header of a client that cannot be
changed, is kept as scrypt: each look at an unknown credential costs tens of milliseconds of a
thread (`deployments.access.key_checks`), and the guard bounds how many looks it pays for.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from deployments.access.policy import Scrypt, StoredKey

PREFIX: Final = "mk_"
KEY_BYTES: Final = 32
SALT_BYTES: Final = 16
# Longest credential that is looked at.
KEY_LIMIT: Final = 1024
# Bounds time and memory of one look, 16 MiB with the numbers of `hash_chosen`.
_MOST_COST: Final = 1 << 17
_MOST_BLOCKS: Final = 32
_MOST_MEMORY_BYTES: Final = 256 << 20
_COST, _BLOCK_SIZE, _PARALLELIZATION = 1 << 14, 8, 1
_HASH_BYTES: Final = 32
_FORMS: Final = "sha256:<64 hex digits> or scrypt:<n>:<r>:<p>:<salt>:<hash>"


def make_key(random_bytes: bytes) -> str:
    """Return the text of a key.

    Args:
        random_bytes: `KEY_BYTES` from a source of secrets.
    """
    return PREFIX + base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")


def hash_made(key: str) -> str:
    """Return what the policy file keeps of a key that `make_key` made."""
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def hash_chosen(key: str, salt: bytes) -> str:
    """Return what the policy file keeps of a key that somebody chose."""
    scrypt = Scrypt(_COST, _BLOCK_SIZE, _PARALLELIZATION, salt, b"")
    digest = _derive(scrypt, key.encode())
    return f"scrypt:{_COST}:{_BLOCK_SIZE}:{_PARALLELIZATION}:{salt.hex()}:{digest.hex()}"


def read_hash(text: str) -> bytes | Scrypt:
    """Return the digest or the parameters that a hash in the policy file consists of.

    Raises:
        ValueError: It is no such hash; the text says what is expected, not what was given.
    """
    kind, _, rest = text.partition(":")
    try:
        if kind == "sha256":
            digest = bytes.fromhex(rest)
            if len(digest) == _HASH_BYTES:
                return digest
        elif kind == "scrypt":
            cost, blocks, parallel, salt, expected = rest.split(":")
            found = Scrypt(
                int(cost), int(blocks), int(parallel), bytes.fromhex(salt), bytes.fromhex(expected)
            )
            if _is_sound(found):
                return found
    except ValueError:
        pass
    raise ValueError(_FORMS)


def _is_sound(scrypt: Scrypt) -> bool:
    cost = scrypt.cost
    return (
        1 < cost <= _MOST_COST
        and cost & (cost - 1) == 0
        and 1 <= scrypt.block_size <= _MOST_BLOCKS
        and scrypt.parallelization == 1
        and 128 * cost * scrypt.block_size <= _MOST_MEMORY_BYTES
        and SALT_BYTES <= len(scrypt.salt) <= _HASH_BYTES
        and len(scrypt.expected) == _HASH_BYTES
    )


def _derive(scrypt: Scrypt, key: bytes) -> bytes:
    return hashlib.scrypt(
        key,
        salt=scrypt.salt,
        n=scrypt.cost,
        r=scrypt.block_size,
        p=scrypt.parallelization,
        maxmem=2 * _MOST_MEMORY_BYTES,
        dklen=_HASH_BYTES,
    )


class KeyRing:
    """All keys of one state of the policy.

    Args:
        keys: The keys, those of files included.

    Attributes:
        keys: The same.
        chosen: Those kept as scrypt.
    """

    def __init__(self, keys: Iterable[StoredKey]) -> None:
        self.keys = tuple(keys)
        self._by_digest: dict[bytes, StoredKey] = {}
        self.chosen: list[StoredKey] = []
        for key in self.keys:
            if key.scrypt is None:
                self._by_digest[key.digest] = key
            else:
                self.chosen.append(key)

    def find_made(self, given: bytes) -> StoredKey | None:
        """Return the random key that was given."""
        digest = hashlib.sha256(given).digest()
        found = self._by_digest.get(digest)
        # What a look-up's time tells is about the digest of what was sent, which says nothing of
        # keys that were not; the comparison does not tell where two digests differ.
        if found is None or not hmac.compare_digest(found.digest, digest):
            return None
        return found

    def find_chosen(self, given: bytes) -> StoredKey | None:
        """Return the chosen key that was given; takes tens of milliseconds for each there is."""
        found = None
        for key in self.chosen:
            assert key.scrypt is not None  # noqa: S101 - those without are elsewhere
            # All of them, so that the time does not tell which one it was.
            is_it = hmac.compare_digest(_derive(key.scrypt, given), key.scrypt.expected)
            if is_it and (found is None or key.is_revoked):
                found = key
        return found
