# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the compiled form of the modules that a request passes.

`scripts/compile.py` compiles the sources below with mypyc into ``.compiled/<digest>`` beside the
packages, where the digest is of those sources, this Python and this machine's kind. A tree whose
sources have changed since has another digest and so runs plain; nothing stale is ever loaded.

``MANTA_COMPILED`` in the environment: ``0`` runs plain, ``1`` refuses to; otherwise what is there
is taken.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Folders and files, by their path from the root.
COMPILED: Final = (
    "backends/api",
    "backends/identity",
    "backends/python/backend.py",
    "backends/python/coroutines.py",
    "deployments/contracts",
    "deployments/data_plane",
    "deployments/ensembles",
    "deployments/grpc",
    "deployments/http/codec",
    "deployments/http/kserve",
    "deployments/http/server",
    "deployments/http2",
    "deployments/instance",
    "deployments/lane",
    "deployments/metrics",
    "deployments/pool_queue",
    "deployments/protocol",
    "deployments/rate_limiter",
    "deployments/reactor",
    "deployments/response_cache",
    "deployments/routing",
    "deployments/scheduling",
    "deployments/slabs",
)
# Files there that are not compiled.
PLAIN: Final = frozenset(
    {
        "backends/api/custom_metrics.py",
        "backends/api/errors.py",
        "backends/api/request.py",
        "deployments/contracts/control.py",
        "deployments/contracts/routing_table.py",
        "deployments/contracts/sinks.py",
        "deployments/data_plane/face.py",
        "deployments/http/codec/infer_header.py",
        "deployments/http/codec/infer_spec.py",
        "deployments/instance/actor.py",
        "deployments/instance/loading.py",
        "deployments/instance/progress.py",
        "deployments/instance/spec.py",
        "deployments/lane/messages.py",
        "deployments/lane/batches.py",
        "deployments/metrics/counters.py",
        "deployments/pool_queue/messages.py",
        "deployments/pool_queue/precise_timer.py",
        "deployments/rate_limiter/messages.py",
        "deployments/routing/reports.py",
    }
)
SUFFIX: Final = EXTENSION_SUFFIXES[0]
VARIABLE: Final = "MANTA_COMPILED"
_FOLDER: Final = ".compiled"
# What mypyc names the library that has the code of all modules.
_LIBRARY: Final = "__mypyc"
_SAMPLE: Final = "deployments.http2.frames"


class CompiledFormMissingError(ImportError):
    """``MANTA_COMPILED=1``, and these sources are not compiled."""


def sources() -> list[str]:
    """Return the modules to compile, as paths from the root, in order."""
    found: list[str] = []
    for name in COMPILED:
        path = ROOT / name
        found += (
            each.relative_to(ROOT).as_posix()
            for each in ([path] if path.suffix else path.rglob("*.py"))
            if each.name != "__init__.py"
        )
    return sorted(set(found) - PLAIN)


def folder() -> Path:
    """Return where the compiled form of the sources as they are now is, or would be."""
    digest = hashlib.blake2b(SUFFIX.encode(), digest_size=10)
    for each in sources():
        digest.update(each.encode())
        digest.update((ROOT / each).read_bytes())
    return ROOT / _FOLDER / digest.hexdigest()


class CompiledFinder:
    """Finds extension modules in a folder that is laid out as the packages are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        modules = (each.removesuffix(".py").replace("/", ".") for each in sources())
        self._modules = frozenset(modules)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the place of a module that is compiled."""
        if name not in self._modules and not name.endswith(_LIBRARY):
            return None
        file = self._path / (name.replace(".", "/") + SUFFIX)
        if not file.exists():
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


def install() -> None:
    """Have this process import the compiled form, if it is there and wanted.

    Raises:
        CompiledFormMissingError: It is demanded and not there.
    """
    wish = os.environ.get(VARIABLE, "")
    found = None if wish == "0" or not (ROOT / _FOLDER).is_dir() else folder()
    if found is not None and found.is_dir():
        sys.meta_path.insert(0, CompiledFinder(found))
    elif wish == "1":
        raise CompiledFormMissingError(
            f"{VARIABLE}=1, but these sources are not compiled; run 'make compiled', or unset it"
        )


@cache
def is_compiled() -> bool:
    """Whether this process runs the compiled form."""
    spec = find_spec(_SAMPLE)
    return spec is not None and str(spec.origin).endswith(SUFFIX)
