# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance's process does about its environment before it loads a model."""

import os
import site

from backends.api.errors import InternalError
from backends.environments.launcher import FAILURE_VARIABLE, PACKAGES_VARIABLE


def enter_environment() -> None:
    """Finish what the start of the process began; see `backends.environments.launcher`.

    Raises:
        InternalError: The process is not in the environment it should be in; the message says why.
    """
    failure = os.environ.get(FAILURE_VARIABLE)
    if failure is not None:
        raise InternalError(failure)
    packages = os.environ.get(PACKAGES_VARIABLE)
    if packages is not None:
        # On the path already; this reads its .pth files.
        site.addsitedir(packages)
