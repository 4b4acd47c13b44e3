# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypts the files of a version, and says in its config how servers decrypt them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import parse_pbtxt
from cluster.commands.publish.targets import Content
from cluster.repository.agents.decrypt import SUFFIX, encrypt_file

_DECRYPT: Final = "decrypt"


def decrypt_text(key_file: Path) -> str:
    """Return the lines of a config that have servers decrypt a model's files with that key."""
    path = json.dumps(str(key_file.absolute()), ensure_ascii=False)
    return (
        "# The key has to be at this path where the model is loaded; key_env names a variable.\n"
        f'model_repository_agents {{ agents [ {{ name: "{_DECRYPT}" parameters [ '
        f'{{ key: "key_file" value: {path} }} ] }} ] }}\n'
    )


def require_decrypt(text: str, where: str, key_file: Path) -> None:
    """Refuse a config that does not have servers decrypt the model's files.

    Raises:
        InvalidArgumentError: It does not, or is no config.
    """
    agents = parse_pbtxt(text, where).model_repository_agents
    if _DECRYPT not in {agent.name for agent in agents}:
        last = decrypt_text(key_file).splitlines()[-1]
        raise InvalidArgumentError(
            f"{where} does not say how to decrypt the model's files; add to it: {last}"
        )


def sealed_names(files: Mapping[str, Content]) -> dict[str, Content]:
    """Return files by the names they have once they are encrypted."""
    return {f"{path}{SUFFIX}": content for path, content in files.items()}


def seal(files: Mapping[str, Content], key: bytes, folder: Path) -> dict[str, Content]:
    """Encrypt files into a folder.

    Args:
        files: By the names they have once they are encrypted.
        key: 32 bytes.
        folder: Where to; empty.

    Returns:
        The encrypted ones, by the same names.

    Raises:
        UnavailableError: The package cryptography is not installed.
        OSError: A file cannot be read or written.
    """
    sealed: dict[str, Content] = {}
    for number, (path, content) in enumerate(files.items()):
        target = folder / str(number)
        if isinstance(content, bytes):
            target.write_bytes(content)
        encrypt_file(target if isinstance(content, bytes) else content, target, key)
        sealed[path] = target
    return sealed
