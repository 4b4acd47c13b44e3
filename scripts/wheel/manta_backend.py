# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How pip and its like build Manta: as hatchling does, and the wheel has the compiled form.

In the wheel all packages are in one, ``manta``: what is packed, and compiled before, is a copy of
the sources with the names that modules have there (`renaming`, ADR 24), in ``.renamed``.

Without a C compiler, and with ``MANTA_WHEEL=plain``, the wheel is plain and for any machine. An
editable installation is plain and quick to make; what it runs is compiled by `make install`.

This is the build backend, which alone can say what only a wheel needs to be built, and hatchling's
hook, which adds files to it.
"""

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import renaming
from hatchling import build as hatchling_build
from hatchling.build import *  # noqa: F403 - the other functions are hatchling's
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder

ROOT: Final = Path(__file__).resolve().parents[2]
RENAMED: Final = ROOT / ".renamed"
# What compiles there.
_SCRIPTS: Final = ("mypyc_build.py", "compiled_cache.py")
_OPTIMIZATION: Final = "2"
# Dependencies whose types mypyc uses; of the others it knows nothing either way.
_TYPED: Final = frozenset({"numpy", "msgspec", "orjson", "hpack", "mypy-extensions"})


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what the wheel needs to be built: mypyc, and what the sources import."""
    requires = hatchling_build.get_requires_for_build_wheel(config_settings)
    return [*requires, *_for_mypyc()] if _shall_compile() else requires


def _for_mypyc() -> list[str]:
    project = WheelBuilder(str(ROOT)).metadata.core
    return [
        *project.optional_dependencies["compile"],
        *(each for each in project.dependencies if re.split(r"[^\w-]", each)[0] in _TYPED),
    ]


def _shall_compile() -> bool:
    """Whether a compiled wheel is wanted and there are a C compiler and Python's headers."""
    return os.environ.get("MANTA_WHEEL", "") != "plain" and not _build().no_compiler()


def _build() -> Any:
    """Return `scripts.mypyc_build`, of the renamed sources."""
    # Never what a tree that is compiled already would find.
    os.environ["MANTA_COMPILED"] = "0"
    if str(RENAMED) not in sys.path:
        _write_renamed()
        sys.path.insert(0, str(RENAMED))
    from scripts import mypyc_build  # noqa: PLC0415

    return mypyc_build


def _write_renamed() -> None:
    """Have the folder hold the sources as a wheel has them."""
    ours = renaming.modules(ROOT)
    package = dict(renaming.renamed_files(ROOT, renaming.AROUND, ours))
    for folder in renaming.PACKAGES:
        for path, content in renaming.renamed_files(ROOT, folder, ours):
            package[f"{folder}/{path}"] = content
    renaming.write_all(package, RENAMED / renaming.AROUND)
    scripts = {name: (ROOT / "scripts" / name).read_text() for name in _SCRIPTS}
    renaming.write_all(
        {name: renaming.renamed(text, ours, name).encode() for name, text in scripts.items()},
        RENAMED / "scripts",
    )
    # Which says how mypy is to read them.
    shutil.copy2(ROOT / "pyproject.toml", RENAMED)


class InstalledWheel(BuildHookInterface[Any]):
    """Puts the renamed sources into the wheel, and the extension modules beside them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Rename, compile, unless that is done, and list the result; called by hatchling."""
        if version == "editable":
            return
        _write_renamed()
        build_data["force_include"][str(RENAMED / renaming.AROUND)] = renaming.AROUND
        if not _shall_compile():
            self.app.display_info("a plain wheel: MANTA_WHEEL=plain, or no C compiler")
            return
        build = _build()
        if why_not := build.impediment():
            raise RuntimeError(f"{why_not}; with MANTA_WHEEL=plain the wheel is plain")
        with contextlib.chdir(RENAMED):
            self.app.display_info(build.make(_OPTIMIZATION))
        made = build.compiled_form.folder()
        if build.optimization_of(made) != _OPTIMIZATION:
            raise RuntimeError(
                f"{made} was compiled for trying things out, not with -O{_OPTIMIZATION}; remove it"
            )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        self._add_shim(build_data)
        self._add_client(build_data)
        for file in sorted(made.rglob("*" + build.compiled_form.SUFFIX)):
            build_data["force_include"][str(file)] = file.relative_to(made).as_posix()

    def _add_shim(self, build_data: dict[str, Any]) -> None:
        """Add the library that backends in C are loaded with, if there is a C++ compiler."""
        from manta.backends.custom import shim_library  # noqa: PLC0415 - of the renamed sources

        if shim_library.compiler() is None:
            self.app.display_info("no C++ compiler: backends in C need one where they run")
            return
        made = shim_library.compile_into(RENAMED / shim_library.FOLDER / shim_library.digest())
        build_data["force_include"][str(made)] = f"manta/backends/custom/shim/{shim_library.NAME}"

    def _add_client(self, build_data: dict[str, Any]) -> None:
        """Add what asks the fork server for a process."""
        from manta.cluster.fork_server import client_file  # noqa: PLC0415 - of the renamed sources

        made = client_file.compiled_place()
        self.app.display_info(client_file.compiled(made))
        if made.is_file():
            build_data["force_include"][str(made)] = f"manta/cluster/fork_server/{client_file.NAME}"
