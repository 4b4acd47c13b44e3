# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The version of the server beside it, which hatchling cannot read for a dependency."""

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_VERSION_FILE: Final = "../cluster/__init__.py"
# Beside the server's own; what it requires anyway, the tools import too.
_DEPENDENCIES: Final = ("hdrhistogram>=0.10.8",)


class ServersVersion(MetadataHookInterface):
    """Takes the version of the server beside it; a source distribution has it written down."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what is dynamic; called by hatchling."""
        text = Path(self.root, _VERSION_FILE).read_text()
        found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{_VERSION_FILE} has no __version__")
        metadata["version"] = found[1]
        metadata["dependencies"] = [f"manta-serve=={found[1]}", *_DEPENDENCIES]
