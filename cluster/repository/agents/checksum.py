# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent ``checksum``: files have the digests that the model's config says.

A parameter is ``<algorithm>:<file below the model's directory>`` with the hex digest as its value;
the algorithm is MD5 or, beyond Triton, SHA256.

Triton: checksum_repository_agent/src/checksum.cc @66b9179
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError, UnsupportedError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import file_digest

_ALGORITHMS: Final = frozenset({"md5", "sha256"})


class ChecksumAgent:
    """Compares files with digests; see the module."""

    changes_files = False

    def act(self, action: Action, model: AgentModel) -> None:
        """See `RepositoryAgent`.

        Raises:
            InvalidArgumentError: A file differs or cannot be read, or a parameter is none.
            UnsupportedError: The algorithm is unknown.
        """
        if action is not Action.LOAD:
            return
        compare_digests(
            model.parameters, lambda path, algorithm: file_digest(model.directory / path, algorithm)
        )


def compare_digests(parameters: Mapping[str, str], digest_of: Callable[[str, str], str]) -> None:
    """Compare files with the agent's parameters.

    Args:
        parameters: Of the agent.
        digest_of: Gives the hex digest of a file, by path below the model's directory and
            algorithm; an OSError where it cannot be read.

    Raises:
        InvalidArgumentError: A file differs or cannot be read, or a parameter is none.
        UnsupportedError: The algorithm is unknown.
    """
    for key, expected in parameters.items():
        algorithm, path = _parse(key)
        found = _digest(digest_of, path, algorithm)
        if found != expected:
            raise InvalidArgumentError(
                f"Mismatched {algorithm.upper()} hash for file {path}, expect: {expected}, got:"
                f" {found}"
            )


def _parse(key: str) -> tuple[str, str]:
    algorithm, colon, path = key.partition(":")
    if not colon:
        raise InvalidArgumentError(
            f"failed to parse key: {key}, expected '<algorithm>:<file>', as in 'MD5:1/model.onnx'"
        )
    if algorithm.lower() not in _ALGORITHMS:
        raise UnsupportedError(
            f"Unsupported checksum algorithm: {algorithm}, expected MD5 or SHA256"
        )
    return algorithm.lower(), path


def _digest(digest_of: Callable[[str, str], str], path: str, algorithm: str) -> str:
    refusal = f"failed to open text file for read {path}"
    try:
        if ".." in Path(path).parts or Path(path).is_absolute():
            raise InvalidArgumentError(f"{refusal}: expected a path below the model's directory")
        return digest_of(path, algorithm)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{refusal}: {reason_of(error)}") from None


AGENT = ChecksumAgent()
