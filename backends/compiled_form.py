# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the compiled form of the modules that a request passes.

`scripts/compile.py` compiles the sources below with mypyc into ``.compiled/<digest>`` beside the
packages, where the digest is of the sources, this Python and this machine's kind. A tree whose
sources have changed since has another digest and so runs plain; nothing stale is ever loaded.

In an installed wheel that is compiled the extension modules lie beside their sources, as Python
expects; there is no digest, because nobody edits these. There all packages are in ``manta``
(ADR 24).

``MANTA_COMPILED`` in the environment: ``0`` runs plain, ``1`` refuses to; the name of a folder in
``.compiled`` takes that one, and runs plain if it is not there; otherwise what is there is taken.

Imported when a wheel is built, so it needs nothing but Python.
"""

import fcntl
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

# Where our packages are imported from: a checkout, or what a wheel is installed into.
ROOT: Final = Path(__file__).resolve().parents[__name__.count(".")]
# The package that the three are in: none in a checkout.
_AROUND: Final = __name__.split(".")[:-2]
# What is ours in that folder.
PACKAGES: Final = frozenset(_AROUND or ("backends", "cluster", "deployments", "manta"))
# Folders and files, by their path from the package around them.
COMPILED: Final = (
    "backends/api",
    "backends/identity",
    "backends/python/backend.py",
    "backends/python/coroutines.py",
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
    "deployments/reactor",
    "deployments/response_cache",
    "deployments/rollouts/choice.py",
    "deployments/rollouts/matching.py",
    "deployments/routing",
    "deployments/scheduling",
    "deployments/slabs",
    "deployments/tracing/passing_sink.py",
)
# Files there that are not: they define structures of msgspec or what Ray pickles, or they are
# inherited from or patched in ways that native classes do not allow (ADR 10).
PLAIN: Final = frozenset(
    {
        "backends/api/backend.py",
        "backends/api/custom_metrics.py",
        "backends/api/errors.py",
        "backends/api/evolving.py",
        "backends/api/model_config.py",
        "backends/api/model_identifier.py",
        "backends/api/request.py",
        "deployments/data_plane/face.py",
        "deployments/http/codec/infer_header.py",
        "deployments/http/codec/infer_spec.py",
        "deployments/http/codec/openai_errors.py",
        "deployments/instance/actor.py",
        "deployments/instance/given_environment.py",
        "deployments/instance/loading.py",
        "deployments/instance/main_thread.py",
        "deployments/instance/plain_process.py",
        "deployments/instance/process_load.py",
        "deployments/instance/progress.py",
        "deployments/instance/spec.py",
        "deployments/lane/batches.py",
        "deployments/lane/messages.py",
        "deployments/metrics/counters.py",
        "deployments/metrics/node_roles.py",
        "deployments/pool_queue/messages.py",
        "deployments/pool_queue/precise_timer.py",
        "deployments/routing/reports.py",
    }
)
SUFFIX: Final = EXTENSION_SUFFIXES[0]
VARIABLE: Final = "MANTA_COMPILED"
FOLDER: Final = ".compiled"
# mypyc calls the module that has the code of all others by this name, and "__mypyc".
GROUP: Final = "manta"
LIBRARY: Final = GROUP + "__mypyc"
# What compiled modules import. mypyc writes constants of plain modules into the code that uses
# them, so that these count as much as the sources that are compiled.
_IMPORTED: Final = ("backends", "deployments")


class CompiledFormMissingError(ImportError):
    """``MANTA_COMPILED=1``, and these sources are not compiled."""


def sources() -> list[str]:
    """Return the modules to compile, as paths from the root, in order."""
    found: list[str] = []
    for name in COMPILED:
        path = ROOT.joinpath(*_AROUND, name)
        found += (
            each.relative_to(ROOT).as_posix()
            for each in ([path] if path.suffix else path.rglob("*.py"))
            if each.name != "__init__.py"
        )
    return sorted(set(found) - {"/".join((*_AROUND, each)) for each in PLAIN})


def folder() -> Path:
    """Return where the compiled form of the sources as they are now is, or would be."""
    digest = hashlib.blake2b(SUFFIX.encode(), digest_size=10)
    root = str(ROOT)
    for name in _IMPORTED:
        for place, folders, files in os.walk("/".join((root, *_AROUND, name))):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".py"):
                    path = f"{place}/{file}"
                    digest.update(path.removeprefix(root).encode())
                    # Not pathlib: this is read by every process, and takes half as long.
                    with open(path, "rb") as source:  # noqa: PTH123
                        digest.update(source.read())
    return ROOT / FOLDER / digest.hexdigest()


class CompiledFinder:
    """Finds extension modules in a folder that is laid out as the packages are.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the place of a module that is compiled."""
        if name != LIBRARY and name.partition(".")[0] not in PACKAGES:
            return None
        file = self.path / (name.replace(".", "/") + SUFFIX)
        if not file.exists() or (path is not None and not _is_ours(name, path)):
            return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


class PlainFinder:
    """Finds the sources of a wheel, where Python itself prefers the extension modules."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the place of a module's source; packages are found as ever."""
        package, _, module = name.rpartition(".")
        if package.partition(".")[0] not in PACKAGES:
            return None
        files = (Path(place, f"{module}.py") for place in path or ())
        file = next((each for each in files if each.is_file()), None)
        return None if file is None else spec_from_file_location(name, file)


def install() -> None:
    """Have this process import the compiled form, if it is there and wanted.

    Raises:
        CompiledFormMissingError: It is demanded and not there.
    """
    wish = os.environ.get(VARIABLE, "")
    if _is_beside():
        if wish == "0":
            sys.meta_path.insert(0, PlainFinder())
        return
    found = _wanted(wish)
    if found is not None and _hold(found):
        sys.meta_path.insert(0, CompiledFinder(found))
    elif wish == "1":
        raise CompiledFormMissingError(
            f"{VARIABLE}=1, but these sources are not compiled; run 'make compiled' in a checkout, "
            f"install a wheel built where a C compiler is, or unset {VARIABLE}"
        )


def choice() -> str:
    """Return the ``MANTA_COMPILED`` that has another process run the form this process runs.

    A server gives it to its processes. Otherwise those that start after its sources were edited or
    compiled would run another form than those before.
    """
    finders = (each for each in sys.meta_path if isinstance(each, CompiledFinder))
    found = next(finders, None)
    if found is not None:
        return found.path.name
    return os.environ.get(VARIABLE, "") if _is_beside() else "0"


@cache
def is_compiled() -> bool:
    """Whether this process runs the compiled form."""
    sample = sources()[0].removesuffix(".py").replace("/", ".")
    spec = find_spec(sample)
    return spec is not None and str(spec.origin).endswith(SUFFIX)


def _is_ours(name: str, path: Sequence[str]) -> bool:
    """Whether a module is looked for in our package, not in a model's that is called so."""
    package = name.rpartition(".")[0].replace(".", "/")
    place = next(iter(path), "")
    return place == f"{ROOT}/{package}" or Path(place).resolve() == ROOT / package


def _is_beside() -> bool:
    """Whether extension modules lie beside the sources: this is a wheel, and compiled."""
    return (ROOT / (LIBRARY + SUFFIX)).exists()


def _wanted(wish: str) -> Path | None:
    # Reading all sources takes 10 ms: not where it is clear that there is nothing to find.
    if wish == "0" or not (ROOT / FOLDER).is_dir():
        return None
    return folder() if wish in {"", "1"} else ROOT / FOLDER / Path(wish).name


def _hold(path: Path) -> bool:
    """Keep a folder from being removed while this process lives; False when it is not there."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        # Held until the process ends: the lock is the open file's, which nobody closes.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # `scripts/compile.py` is removing it.
        os.close(file)
        return False
    except OSError:
        # Not every file system of a network has locks.
        return True
    return path.is_dir()
