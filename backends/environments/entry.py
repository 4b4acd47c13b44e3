# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance's process does about its environment before it loads a model."""

import os
import site

from backends.api.errors import InternalError
from backends.environments.launcher import FAILURE_VARIABLE, PACKAGES_VARIABLE
from backends.environments.requirement_lines import Requirements
from backends.environments.requirements import enter_layer


def enter_environment(requirements: Requirements | None = None) -> None:
    """Finish what the start of the process began; see `backends.environments.launcher`.

    Args:
        requirements: Of the model; None when it has none.

    Raises:
        InternalError: The process is not in the environment it should be in; the message says why.
        InvalidArgumentError: The requirements cannot be met.
        ImportedAlreadyError: They can in a process that starts with them.
    """
    failure = os.environ.get(FAILURE_VARIABLE)
    if failure is not None:
        raise InternalError(failure)
    packages = os.environ.get(PACKAGES_VARIABLE)
    if packages is None and requirements is not None:
        packages = enter_layer(requirements)
    if packages is not None:
        # On the path already; this reads its .pth files.
        site.addsitedir(packages)
