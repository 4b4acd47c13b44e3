# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the agents share that take parameters and need the package cryptography."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError, UnavailableError
from cluster.repository.agents.contracts import AgentModel
from cluster.repository.trees import files_below

_POSITIVE: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


def check_parameters(agent: str, model: AgentModel, known: Collection[str]) -> None:
    """Refuse parameters that an agent does not have.

    Raises:
        InvalidArgumentError: There is one.
    """
    for name in model.parameters:
        if name not in known:
            raise InvalidArgumentError(
                f"repository agent '{agent}' of model '{model.name}' has no parameter '{name}', "
                f"expected one of {', '.join(sorted(known))}"
            )


def number(agent: str, model: AgentModel, name: str, default: int) -> int:
    """Return a parameter that is a positive number.

    Raises:
        InvalidArgumentError: It is none.
    """
    text = model.parameters.get(name, str(default))
    if _POSITIVE.fullmatch(text) is None:
        raise InvalidArgumentError(
            f"parameter '{name}' of repository agent '{agent}' of model '{model.name}' is "
            f"'{text[:200]}', expected a positive number"
        )
    return int(text)


def matching(agent: str, model: AgentModel, patterns: str) -> list[str]:
    """Return the files of a model that match one of some patterns; there has to be one.

    Args:
        agent: For the error.
        model: Whose files.
        patterns: As the parameter ``files`` has them, separated by commas; ``*`` stands for any
            part of a path, ``/`` included.

    Raises:
        InvalidArgumentError: No file matches.
    """
    each = [pattern.strip() for pattern in patterns.split(",")]
    found = [
        path
        for path in files_below(model.directory)
        if any(fnmatchcase(path, pattern) for pattern in each)
    ]
    if not found:
        raise InvalidArgumentError(
            f"repository agent '{agent}' of model '{model.name}' finds no file that matches "
            f"'{patterns}'; upload the files, or correct its parameter 'files'"
        )
    return found


@contextmanager
def needing_cryptography(purpose: str) -> Iterator[None]:
    """Say what to install when the package cryptography is not there.

    Raises:
        UnavailableError: It is not.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"{purpose} needs the package cryptography, which is not installed. Install it on "
            "every node with: pip install 'manta-serve[security]'"
        ) from error


def absolute(agent: str, model: AgentModel, name: str, parameters: Mapping[str, str]) -> Path:
    """Return a parameter that is a path of this machine.

    Raises:
        InvalidArgumentError: It is not absolute.
    """
    path = Path(parameters[name])
    if not path.is_absolute():
        raise InvalidArgumentError(
            f"parameter '{name}' of repository agent '{agent}' of model '{model.name}' is '{path}',"
            " expected an absolute path"
        )
    return path
