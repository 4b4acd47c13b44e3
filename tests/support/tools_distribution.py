# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an installer writes beside a distribution's modules, so that its commands are found."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from cluster import __version__
from tests.support.server import ROOT

GROUP = "manta.commands"


def declared_commands() -> dict[str, str]:
    """Return what manta-tools declares: by command, where its function is."""
    project = tomllib.loads((ROOT / "tools/pyproject.toml").read_text())["project"]
    found: dict[str, str] = project["entry-points"][GROUP]
    return found


def write_metadata(
    folder: Path, commands: Mapping[str, str], name: str = "manta-tools", version: str = __version__
) -> Path:
    """Write the metadata of a distribution; return the folder, which belongs into the path."""
    made = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{GROUP}]", *(f"{command} = {where}" for command, where in commands.items())]
    (made / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder
