# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config that comes with a load may not name. Pure.

Who may load may choose among what is on the nodes; a config from the network must not have them
fetch or install something from elsewhere. What the model's own config asks for is its owner's.
"""

from collections.abc import Callable, Mapping
from typing import Final

from backends.api.errors import InvalidArgumentError

# Ray downloads what it names, and installs packages from an index.
_FETCHING: Final = "runtime_env"


def check_override_places(
    name: str, given: Mapping[str, str], own: Callable[[], Mapping[str, str]]
) -> None:
    """Check the parameters of a config that comes with a load.

    Args:
        name: The model.
        given: Parameters of that config.
        own: Reads those of the config in the repository; empty without one.

    Raises:
        InvalidArgumentError: One makes nodes fetch what the repository's config does not name.
    """
    if _FETCHING in given and given[_FETCHING] != own().get(_FETCHING):
        raise InvalidArgumentError(
            f"parameter '{_FETCHING}' of model '{name}' cannot come with a load: it has nodes "
            "fetch and install what it names; put it into the config of the repository"
        )
