# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled forms of sources, kept outside the checkouts: two clones of one commit compile once.

Each lies under the digest of its sources (`backends.compiled_form`), the C compiler's -O and mypy's
release. ``MANTA_COMPILE_CACHE`` names the folder, ``manta/compiled`` in the user's cache folder if
it is not set; empty, nothing is kept. It holds code that servers run: a folder that another user
owns or may write to is not used.
"""

import importlib.metadata
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "MANTA_COMPILE_CACHE"
# Some 30 MB each.
_KEPT: Final = 6
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class CompiledCache:
    """The folder.

    Args:
        environ: The environment that says where it is.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        default = Path(
            environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/nonexistent"), ".cache"),
            "manta/compiled",
        )
        named = environ.get(VARIABLE, str(default))
        self._place = Path(named) if named else None

    def take(self, wanted: Path, optimization: str) -> bool:
        """Copy a compiled form to where it is wanted; False if it is not kept.

        Args:
            wanted: The folder of the compiled form in the checkout, which is not there.
            optimization: The C compiler's -O.
        """
        kept = self._entry(wanted, optimization)
        if kept is None or not kept.is_dir():
            return False
        unfinished = wanted.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            shutil.copytree(kept, unfinished)
            os.utime(kept)
        except OSError:
            # Another process removes it.
            shutil.rmtree(unfinished, ignore_errors=True)
            return False
        unfinished.rename(wanted)
        return True

    def keep(self, made: Path, optimization: str) -> None:
        """Copy a compiled form here, and remove those that were used longest ago.

        A folder that cannot be written keeps nothing, which costs the next checkout minutes and no
        more.

        Args:
            made: The folder of the compiled form in the checkout.
            optimization: The C compiler's -O.
        """
        kept = self._entry(made, optimization)
        if kept is None or kept.exists():
            return
        unfinished = kept.with_name(f".{kept.name}.{os.getpid()}")
        try:
            shutil.copytree(made, unfinished)
            unfinished.rename(kept)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            return
        entries = [each for each in kept.parent.iterdir() if not each.name.startswith(".")]
        entries.sort(key=lambda each: each.stat().st_mtime_ns)
        for old in entries[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _entry(self, form: Path, optimization: str) -> Path | None:
        if self._place is None:
            return None
        try:
            self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self._place.stat()
        except OSError:
            return None
        if found.st_uid != os.getuid() or found.st_mode & _OTHERS_MAY_WRITE:
            print(f"{self._place} is not this user's alone: no compiled form is taken from there")
            return None
        return self._place / f"{form.name}-O{optimization}-mypy{importlib.metadata.version('mypy')}"
