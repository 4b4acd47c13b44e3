# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of packages: what a ``requirements.txt`` adds to the packages of the server.

A layer is a folder made like an environment. It has what uv, or pip, would have changed in the
server's environment: the installer takes the server's distributions for installed ones, of which
it sees the metadata alone. What meets the requirements is left as it is, and what does not is in
the layer in another version, which comes first.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from backends.api.errors import ImportedAlreadyError, InternalError, InvalidArgumentError
from backends.environments.launcher import (
    EnvironmentUnusableError,
    cache_folder,
    distributions,
    find_packages,
    is_site,
    layer_folder,
    locked,
    own_packages,
    variables,
)
from backends.environments.requirement_lines import Requirements

_INSTALL_TIMEOUT_S: Final = 1800
_MAX_OUTPUT_CHARS: Final = 2000
# Another version of these cannot talk to the server, or to its own modules.
_OWN_DISTRIBUTIONS: Final = ("ray", "msgspec", "protobuf", "tritonclient", "setproctitle")
_UV: Final = ("-m", "uv", "pip", "install", "--quiet", "--python", "{python}")
_PIP: Final = (
    *("-m", "pip", "--python", "{python}", "install", "--quiet", "--no-input"),
    "--disable-pip-version-check",
)
# What uv draws beside its lines.
# Of an index, whose token clients shall not read in the load's error.
_USER_IN_URL: Final = re.compile(r"://[^/@\s]+@")
_DRAWN: Final = re.compile(r"^[\s\xd7\u2500-\u25ff]+")


def enter_layer(requirements: Requirements) -> str:
    """Put a layer's packages before the server's in this process; return their folder.

    Raises:
        InvalidArgumentError: The requirements cannot be met.
        ImportedAlreadyError: The process has imported other versions of them.
        InternalError: There is no place for layers.
    """
    try:
        cache = cache_folder()
        folder = installed(requirements, cache)
        packages = find_packages(folder, requirements.path)
        own = own_packages(cache)
    except (EnvironmentUnusableError, OSError) as error:
        raise InternalError(
            f"there is no folder for the packages of '{requirements.path}': {error}"
        ) from None
    names = imported_otherwise(packages, sys.modules)
    if names:
        raise ImportedAlreadyError(
            f"'{requirements.path}' brings other versions of modules that its process had "
            f"imported already: {', '.join(names)}"
        )
    # As in an environment: after the standard library, some of whose names are distributions too.
    place = next((i for i, each in enumerate(sys.path) if is_site(each)), len(sys.path))
    sys.path.insert(place, str(packages))
    importlib.invalidate_caches()
    os.environ.update(variables(folder, packages, own))
    return str(packages)


def installed(requirements: Requirements, cache: Path) -> Path:
    """Return the folder of a layer; only the first call for it on a node installs it.

    Processes that ask for the same layer at once wait for the first of them.

    Args:
        requirements: What is to be met.
        cache: Folder for environments of this user.

    Raises:
        InvalidArgumentError: They cannot be met; the message has what the installer said.
        OSError: The folder cannot be written.
    """
    folder = layer_folder(cache, requirements.key)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return folder
        # Of processes that were ended meanwhile.
        for left in folder.parent.glob(f"{folder.name}.partial-*"):
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
        try:
            _install(requirements, partial)
            (partial / "layer").rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def _install(requirements: Requirements, work: Path) -> None:
    """Make the layer in a folder ``layer``."""
    layer = work / "layer"
    venv.EnvBuilder(symlinks=True).create(layer)
    python = layer / "bin/python"
    packages = find_packages(layer, requirements.path)
    there = distributions()
    noted = [_note(metadata, packages) for metadata in there.values()]
    wanted, held = work / "requirements.txt", work / "constraints.txt"
    wanted.write_text("\n".join(requirements.lines) + "\n")
    own = (there[name].name for name in _OWN_DISTRIBUTIONS if name in there)
    versions = (each.removesuffix(".dist-info").partition("-") for each in own)
    held.write_text("".join(f"{name}=={version}\n" for name, _, version in versions))
    arguments = [each.format(python=python) for each in _installer(requirements)]
    files = ["--requirement", str(wanted), "--constraint", str(held)]
    _run([sys.executable, *arguments, *files], requirements, work)
    for each in noted:
        shutil.rmtree(each, ignore_errors=True)
    _make_relative(layer, python)


def _note(metadata: Path, packages: Path) -> Path:
    """Have an installer take a distribution of the server for installed, without its files.

    What the installer removes for another version is what is written down here.
    """
    noted = packages / metadata.name
    noted.mkdir()
    shutil.copyfile(metadata / "METADATA", noted / "METADATA")
    (noted / "INSTALLER").write_text("manta\n")
    names = ("METADATA", "INSTALLER", "RECORD")
    (noted / "RECORD").write_text("".join(f"{metadata.name}/{name},,\n" for name in names))
    return noted


def _installer(requirements: Requirements) -> Sequence[str]:
    for module, arguments in (("uv", _UV), ("pip", _PIP)):
        if importlib.util.find_spec(module) is not None:
            return arguments
    raise InvalidArgumentError(
        f"'{requirements.path}' cannot be installed: neither uv nor pip is installed beside "
        "Manta; pip install uv"
    )


def _run(command: Sequence[str], requirements: Requirements, folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - uv or pip of this environment
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise InvalidArgumentError(
            f"'{requirements.path}' was not installed within {_INSTALL_TIMEOUT_S} s; load the model"
            " again to go on with what is downloaded"
        ) from None
    if done.returncode:
        lines = (_DRAWN.sub("", line).strip() for line in done.stdout.splitlines())
        said = _USER_IN_URL.sub("://...@", " ".join(filter(None, lines)))[-_MAX_OUTPUT_CHARS:]
        raise InvalidArgumentError(
            f"the requirements in '{requirements.path}' cannot be met: "
            f"{said or f'{command[2]} ended with {done.returncode}'}"
        )


def _make_relative(layer: Path, python: Path) -> None:
    """Take away what makes a layer an environment of its own; its scripts run on this Python."""
    (layer / "pyvenv.cfg").unlink()
    for script in (layer / "bin").iterdir():
        if script.is_symlink() or script.name.lower().startswith("activate"):
            script.unlink()
            continue
        content = script.read_bytes()
        if content.startswith(b"#!"):
            # In the first line, or in the second where it is too long for that.
            pattern = re.escape(os.fsencode(python)) + rb"[0-9.]*"
            own = os.fsencode(sys.executable).replace(b"\\", rb"\\")
            script.write_bytes(re.sub(pattern, own, content, count=1))


def imported_otherwise(packages: Path, modules: Mapping[str, ModuleType]) -> list[str]:
    """Return which modules of a folder of packages are imported already, from elsewhere.

    Args:
        packages: The folder.
        modules: What is imported, by name.
    """
    there = {each.name.partition(".")[0] for each in packages.iterdir()}
    there -= sys.stdlib_module_names
    found = []
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] not in there or not file:
            continue
        if not file.startswith(f"{packages}/") and _has(packages, name):
            found.append(name)
    return [name for name in found if name.rpartition(".")[0] not in found]


def _has(packages: Path, name: str) -> bool:
    place = packages.joinpath(*name.split("."))
    is_source = place.with_name(f"{place.name}.py").is_file() or (place / "__init__.py").is_file()
    return is_source or any(place.parent.glob(f"{place.name}.*so"))
