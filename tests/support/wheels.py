# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Wheels of one module each, to install without an index."""

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, source: str, *, command: str = "") -> Path:
    """Write the wheel of a distribution whose module has its name.

    Args:
        folder: Where it goes.
        name: Of distribution and module.
        version: Of the distribution.
        source: Of the module.
        command: A script that calls the module's ``main``; empty for none.
    """
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    if command:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{command} = {name}:main\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for each, text in files.items():
            wheel.writestr(each, text)
    return path
