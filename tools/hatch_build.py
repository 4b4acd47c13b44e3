# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the tools take of the server beside them: its version, and the names its modules have.

A source distribution has both written down, and is built without the server's sources.
"""

import re
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_VERSION_FILE: Final = "../cluster/__init__.py"
_PACKAGE: Final = "manta_tools"
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


class InstalledNames(BuildHookInterface[Any]):
    """Has the tools import the server's modules by the names of an installed server (ADR 24)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Rename the sources, and pack those in place of these; called by hatchling."""
        root = Path(self.root).parent
        if version == "editable" or not (root / "scripts/wheel/renaming.py").is_file():
            return
        sys.path.insert(0, str(root / "scripts/wheel"))
        import renaming  # noqa: PLC0415 - which only a checkout has

        ours = renaming.modules(root)
        made = root / ".renamed" / _PACKAGE
        files = dict(renaming.renamed_files(Path(self.root), _PACKAGE, ours))
        renaming.write_all(files, made)
        for path in files:
            build_data["force_include"][str(made / path)] = f"{_PACKAGE}/{path}"
