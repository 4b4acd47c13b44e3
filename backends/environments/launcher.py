# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Starts an instance's process inside the Python environment a model brings along.

The environment is a folder, or an archive of conda-pack or venv-pack; or the layer of packages that
a requirements.txt asks for, see `backends.environments.requirements`. This file is run by path in
front of the worker's own command, before anything of Manta is imported: it unpacks the archive,
once for a node, puts the environment's packages before all others, and turns into the worker. So
the model, and numpy in Manta itself, see the environment's versions from the first import on. What
fails is told to the worker, which loads the model and can say so to who asked for it.

Only the standard library may be imported here, and nothing of Manta.

Triton: python_backend/src/stub_launcher.cc StubLauncher::Launch, pb_env.cc EnvironmentManager
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

# What the worker finds in its environment: the folder of packages, or why there is none.
PACKAGES_VARIABLE: Final = "MANTA_MODEL_ENVIRONMENT"
FAILURE_VARIABLE: Final = "MANTA_MODEL_ENVIRONMENT_FAILURE"

MAX_UNPACKED_BYTES: Final = 64 << 30
MAX_MEMBERS: Final = 2_000_000
# Packages that have to be Manta's own: another version of these cannot talk to the server.
_OWN_PACKAGES: Final = ("ray", "msgspec", "google", "tritonclient", "setproctitle")
_LAYER: Final = "--layer"
_VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


class EnvironmentUnusableError(Exception):
    """The environment cannot be used; the message says why and what to do."""


def launcher_command(environment: str, fetch: Sequence[str] = ()) -> str:
    """Return what to put before a worker's command, as shell words.

    Args:
        environment: A folder, or an archive; with ``fetch`` only its name.
        fetch: A module of Manta's, and its argument: what fetches the archive to the node that the
            worker is on, and prints where it is.
    """
    fetching = ["--fetch", *fetch] if fetch else []
    return shlex.join([sys.executable, "-P", str(Path(__file__).resolve()), *fetching, environment])


def layer_command(key: str) -> str:
    """Return what to put before the command of a worker that starts with a layer, as shell words.

    A worker on a node that does not have the layer starts without it.

    Args:
        key: Of the requirements.
    """
    return shlex.join([sys.executable, "-P", str(Path(__file__).resolve()), _LAYER, key])


def is_site(path: str) -> bool:
    """Whether an entry of ``sys.path`` is one that packages are installed to."""
    return Path(path).name in {"site-packages", "dist-packages"}


def distributions() -> dict[str, Path]:
    """Return the metadata of the distributions installed here, by normalised name."""
    found: dict[str, Path] = {}
    for place in filter(is_site, sys.path):
        for metadata in sorted(Path(place).glob("*.dist-info")):
            name = re.sub(r"[-_.]+", "-", metadata.name.partition("-")[0]).lower()
            if (metadata / "METADATA").is_file():
                found.setdefault(name, metadata)
    return found


def layer_folder(cache: Path, key: str) -> Path:
    """Return where the layer of some requirements is, or would be.

    It is what they add to the packages that are installed here, and so another one beside others.
    """
    here = [sys.prefix, sys.version, *sorted(each.name for each in distributions().values())]
    digest = hashlib.sha256("\n".join(here).encode()).hexdigest()[:16]
    return cache / "layers" / f"{key}-{digest}"


def find_packages(folder: Path, given: str) -> Path:
    """Return the folder of packages in an environment for this version of Python.

    Args:
        folder: The environment.
        given: What the model names it by.

    Raises:
        EnvironmentUnusableError: There is none, or it is for another version.
    """
    found = {
        each.parent.name.removeprefix("python"): each
        for each in sorted(folder.glob("lib/python3*/site-packages"))
    }
    if _VERSION in found:
        return found[_VERSION]
    if not found:
        raise EnvironmentUnusableError(
            f"EXECUTION_ENV_PATH '{given}' is no Python environment: it has no "
            f"lib/python{_VERSION}/site-packages"
        )
    raise EnvironmentUnusableError(
        f"EXECUTION_ENV_PATH '{given}' is an environment of Python {', '.join(found)}, and this "
        f"server runs models with Python {_VERSION}; pack one of Python {_VERSION}"
    )


def unpack(archive: Path, cache: Path, name: str = "") -> Path:
    """Return the folder an archive is unpacked to; a second call finds it there.

    Processes that ask for the same archive at once wait for the first of them. An archive that
    changed is unpacked anew, and what it was before is removed when no process uses it.

    Args:
        archive: A tar file, compressed or not.
        cache: Folder for unpacked archives of this user.
        name: What stays the same when the archive changes; empty for its path.

    Raises:
        EnvironmentUnusableError: It cannot be unpacked.
    """
    name = name or str(archive.resolve())
    try:
        status = archive.stat()
    except OSError as error:
        raise EnvironmentUnusableError(
            f"EXECUTION_ENV_PATH '{archive}' cannot be read: {error.strerror}"
        ) from None
    place = cache / hashlib.sha256(name.encode()).hexdigest()[:32]
    place.mkdir(parents=True, exist_ok=True)
    folder = place / f"{status.st_mtime_ns}-{status.st_size}"
    with locked(place / "lock"):
        if not folder.is_dir():
            _remove_unused(place)
            partial = place / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _extract(archive, partial)
                partial.rename(folder)
            except (tarfile.TarError, OSError, EOFError) as error:
                shutil.rmtree(partial, ignore_errors=True)
                raise EnvironmentUnusableError(
                    f"EXECUTION_ENV_PATH '{archive}' cannot be unpacked: {error}"
                ) from None
    return folder


def _extract(archive: Path, folder: Path) -> None:
    left_bytes, left_members = MAX_UNPACKED_BYTES, MAX_MEMBERS

    def bounded(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal left_bytes, left_members
        left_bytes -= member.size
        left_members -= 1
        if left_bytes < 0 or left_members < 0:
            raise EnvironmentUnusableError(
                f"EXECUTION_ENV_PATH '{archive}' is larger than the {MAX_UNPACKED_BYTES >> 30} GiB "
                f"or {MAX_MEMBERS} files allowed"
            )
        try:
            return tarfile.data_filter(member, path)
        except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
            # An environment's interpreter is often such a link, and is not used.
            return None

    folder.mkdir()
    with tarfile.open(archive) as tar:
        # Otherwise an unsafe member is only reported on standard error.
        tar.errorlevel = 1
        tar.extractall(folder, filter=bounded)  # noqa: S202 - the filter bounds it


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which is waited for."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _use(folder: Path) -> None:
    """Keep a folder from being removed for as long as this process, or what it becomes, lives."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)


def _remove_unused(place: Path) -> None:
    for folder in place.iterdir():
        if not folder.is_dir():
            continue
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


def cache_folder() -> Path:
    """Return this user's folder for environments, made if need be.

    Raises:
        EnvironmentUnusableError: It belongs to somebody else.
    """
    given = os.environ.get("MANTA_ENVIRONMENT_CACHE")
    user = os.getuid()
    folder = Path(given or f"{tempfile.gettempdir()}/manta-environments-{user}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not given and (status.st_uid != user or status.st_mode & 0o077 or folder.is_symlink()):
        raise EnvironmentUnusableError(
            f"'{folder}' must be a folder of this user alone; remove it, or name another one with "
            "MANTA_ENVIRONMENT_CACHE"
        )
    return folder


def own_packages(cache: Path) -> Path:
    """Return a folder with links to the packages that have to be this server's own."""
    links = {}
    for name in _OWN_PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        if places:
            links[name] = places[0]
    digest = hashlib.sha256(repr(sorted(links.items())).encode()).hexdigest()[:32]
    folder = cache / f"own-{digest}"
    with locked(cache / "own.lock"):
        if not folder.is_dir():
            partial = cache / "own.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for name, target in links.items():
                (partial / name).symlink_to(target)
            partial.rename(folder)
    return folder


def _unpack_apart(archive: str, name: str) -> Path:
    command = [sys.executable, "-P", __file__, "--unpack", archive, name]
    return Path(_run_apart(command, f"unpacking EXECUTION_ENV_PATH '{archive}'"))


def _fetch_apart(fetch: Sequence[str], name: str) -> str:
    """Fetch an archive; the process that does so finds Manta's packages beside this one's."""
    above = Path(__file__).resolve().parents
    root = next(each for each in above if not Path(each, "__init__.py").exists())
    path = _prepended("PYTHONPATH", root)
    command = [sys.executable, "-P", "-m", *fetch]
    return _run_apart(command, f"fetching EXECUTION_ENV_PATH '{name}'", {"PYTHONPATH": path})


def _run_apart(command: list[str], what: str, variables: Mapping[str, str] = {}) -> str:
    """Run a command in a session of its own and return the last line that it prints.

    Ray ends a worker that is not ready within a minute, and starts another. What was begun goes on
    meanwhile.
    """
    done = subprocess.run(  # noqa: S603 - this very file, or another of Manta's
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        start_new_session=True,
        env={**os.environ, **variables},
    )
    said = done.stdout.strip()
    if done.returncode:
        raise EnvironmentUnusableError(said or f"{what} ended with {done.returncode}")
    return said.rpartition("\n")[2]


def _prepended(name: str, *values: object) -> str:
    return os.pathsep.join([*map(str, values), *filter(None, [os.environ.get(name)])])


def variables(folder: Path, packages: Path, own: Path) -> dict[str, str]:
    """Return the environment variables that make a process use an environment.

    Args:
        folder: The environment.
        packages: Its folder of packages.
        own: Folder of packages that come before those.
    """
    is_conda = (folder / "conda-meta").is_dir()
    found = {
        PACKAGES_VARIABLE: str(packages),
        "PYTHONPATH": _prepended("PYTHONPATH", own, packages),
        "PATH": _prepended("PATH", folder / "bin"),
        "CONDA_PREFIX" if is_conda else "VIRTUAL_ENV": str(folder),
    }
    if is_conda:
        found["LD_LIBRARY_PATH"] = _prepended("LD_LIBRARY_PATH", folder / "lib")
    return found


def enter(environment: str, fetch: Sequence[str] = ()) -> None:
    """Make this process's environment variables those of a worker inside the environment.

    Args:
        environment: As `launcher_command` takes it.
        fetch: The same.

    Raises:
        EnvironmentUnusableError: It cannot be used.
    """
    folder = Path(environment)
    cache = cache_folder()
    if fetch:
        folder = _unpack_apart(_fetch_apart(fetch, environment), environment)
        _use(folder)
    elif not folder.is_dir():
        folder = _unpack_apart(environment, "")
        _use(folder)
    os.environ.update(variables(folder, find_packages(folder, environment), own_packages(cache)))


def enter_layer_of(key: str) -> None:
    """Make this process's environment variables those of a worker with a layer, if it is here."""
    cache = cache_folder()
    folder = layer_folder(cache, key)
    if folder.is_dir():
        os.environ.update(variables(folder, find_packages(folder, key), own_packages(cache)))


def main(arguments: list[str]) -> None:
    """Run as ``[--fetch MODULE REQUEST] ENVIRONMENT WORKER ARGUMENT...``, or ``--unpack``.

    Or as ``--layer KEY WORKER ARGUMENT...``.
    """
    if arguments[0] == "--unpack":
        try:
            print(unpack(Path(arguments[1]), cache_folder(), arguments[2]))  # noqa: T201 - its answer
        except EnvironmentUnusableError as error:
            print(error)  # noqa: T201 - its answer too
            sys.exit(1)
        return
    fetch: list[str] = []
    if arguments[0] == "--fetch":
        _, *fetch = arguments[:3]
        arguments = arguments[3:]
    is_layer = arguments[0] == _LAYER
    if is_layer:
        del arguments[0]
    try:
        if is_layer:
            enter_layer_of(arguments[0])
        else:
            enter(arguments[0], fetch)
    except (EnvironmentUnusableError, OSError) as error:
        os.environ[FAILURE_VARIABLE] = str(error)
    os.execv(sys.executable, [sys.executable, *arguments[1:]])  # noqa: S606 - turns into the worker


if __name__ == "__main__":
    main(sys.argv[1:])
