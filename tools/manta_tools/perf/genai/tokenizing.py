# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: a built-in approximation, and files of Hugging Face's ``tokenizers``.

Nothing is downloaded.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from backends.api.errors import InvalidArgumentError

# Vocabularies of language models have common words whole, with the space before them, and longer
# or rare ones in parts; numbers in groups of three.
_PIECES: Final = re.compile(r" ?[A-Za-z]{1,7}| ?[0-9]{1,3}|\s|.", re.DOTALL)
_FILE: Final = "tokenizer.json"


class Tokenizer(Protocol):
    """Cuts texts into tokens.

    Attributes:
        name: What reports call it.
    """

    name: str

    def encode(self, text: str) -> Sequence[Any]:
        """Return a text's tokens, without such as only begin or end a prompt."""

    def decode(self, tokens: Sequence[Any]) -> str:
        """Return the text of tokens."""


class ApproximateTokenizer:
    """Words of up to seven letters are a token, longer ones several: a rough guess."""

    name = "approximate (built in)"

    def encode(self, text: str) -> Sequence[str]:
        """Return a text's tokens."""
        return _PIECES.findall(text)

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens."""
        return "".join(tokens)


class FileTokenizer:
    """A tokenizer of Hugging Face's library."""

    def __init__(self, path: Path) -> None:
        """Read one.

        Args:
            path: A ``tokenizer.json``, or a directory with it.

        Raises:
            InvalidArgumentError: The file cannot be read, or the library is missing.
        """
        file = path / _FILE if path.is_dir() else path
        if not file.is_file():
            raise InvalidArgumentError(
                f"--tokenizer {path}: no such file; nothing is downloaded, so give the path of a "
                f"{_FILE}, or of the directory that has it"
            )
        try:
            # Of the extra `genai`; counts can be approximate without it.
            from tokenizers import Tokenizer as Library  # noqa: PLC0415
        except ImportError:
            raise InvalidArgumentError(
                f"--tokenizer {path} needs tokenizers; install manta-tools[genai]"
            ) from None
        try:
            self._tokenizer: Any = Library.from_file(str(file))
        except Exception as error:
            # The library raises bare exceptions.
            raise InvalidArgumentError(f"--tokenizer {file} cannot be read: {error}") from None
        self.name = str(path)

    def encode(self, text: str) -> Sequence[int]:
        """Return a text's tokens."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        text: str = self._tokenizer.decode(list(tokens))
        return text


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a path, or for an empty one the built-in approximation.

    Raises:
        InvalidArgumentError: The file cannot be read, or the library is missing.
    """
    return FileTokenizer(Path(path)) if path else ApproximateTokenizer()
