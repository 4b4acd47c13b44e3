# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles small backend libraries in C, as ``--backend-directory`` has them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from backends.custom import shim_library

SOURCES = Path(__file__).parents[1] / "unit/backends/custom/libraries"


def compile_libraries(place: Path, *names: str) -> None:
    """Compile those named, or all, into ``<place>/<name>/libtriton_<name>.so``."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    for_cpp = shim_library.compiler()
    if compiler is None or for_cpp is None:
        pytest.skip("no C and C++ compiler")
    shim = shim_library.path()
    for source in sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.cc")]):
        if names and source.stem not in names:
            continue
        library = place / source.stem / f"libtriton_{source.stem}.so"
        library.parent.mkdir()
        subprocess.run(
            [
                for_cpp if source.suffix == ".cc" else compiler,
                *("-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-D_GNU_SOURCE"),
                *(f"-I{shim_library.SOURCES}", str(source), "-o", str(library)),
                # As what was built against Triton is: the name is in the library.
                *(f"-L{shim.parent}", f"-l:{shim.name}"),
            ],
            check=True,
        )
