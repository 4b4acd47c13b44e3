# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks a model of the identity backend: there is nothing but its config."""

from backends.api.backend import CheckedFiles, LoadContext
from backends.identity.backend import IdentityBackend


def check_files(context: LoadContext, *, auto_complete: bool) -> CheckedFiles:
    """Load it, which costs nothing; see `backends.api.backend.CheckFiles`."""
    del auto_complete
    IdentityBackend().load(context)
    return CheckedFiles(context.config)
