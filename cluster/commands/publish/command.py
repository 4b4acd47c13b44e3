# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta model``."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from backends.api.errors import AlreadyExistsError, InvalidArgumentError, TritonError
from backends.config.pbtxt import to_pbtxt
from cluster.commands.client.command_line import print_table, progress
from cluster.commands.publish.adding import Addition, plan_addition
from cluster.commands.publish.comparing import Side, differences
from cluster.commands.publish.encrypting import seal
from cluster.commands.publish.keys import (
    make_encryption_key,
    make_signing_key,
    read_encryption_key,
    read_key_file,
)
from cluster.commands.publish.pulling import pull_model
from cluster.commands.publish.signing import Signer, sign_stored, signed_shared
from cluster.commands.publish.sources import local_source
from cluster.commands.publish.stored_models import (
    StoredModel,
    backend_of,
    config_of,
    list_models,
    manifest_of,
    require_stored,
    require_version,
    state_of,
)
from cluster.commands.publish.targets import Content, target_of
from cluster.repository.manifest import MANIFEST_FILE, SIGNATURE_FILE, Manifest
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.opening import open_store

_REPOSITORY: Final = "MANTA_MODEL_REPOSITORY"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT: Final = 1024
# How often --next looks for a number anew when others take it.
_ATTEMPTS: Final = 10


def main(arguments: Sequence[str]) -> int:
    """Run ``manta model`` and return its exit code."""
    parser = _parser(os.environ)
    given = parser.parse_args(arguments)
    try:
        with ExitStack() as given.opened:
            code: int = given.run(given)
    except TritonError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return code


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manta model", description="Publish, list, compare and remove models of a repository."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], meaning: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=meaning, description=meaning)
        made.set_defaults(run=run)
        made.add_argument(
            "--to" if name == "add" else "--at",
            dest="location",
            metavar="LOCATION",
            default=environ.get(_REPOSITORY, ""),
            help=f"repository; default: what {_REPOSITORY} says",
        )
        return made

    add = command("add", _add, "publish a file or folder as a version of a model")
    add.add_argument(
        "path",
        help="file, folder (a model.py with the files it loads), or a location with one model"
        " (hf://, mlflow://)",
    )
    add.add_argument("--name", required=True, help="the model's name")
    number = add.add_mutually_exclusive_group()
    number.add_argument("--version", type=int, metavar="K")
    number.add_argument("--next", action="store_true", help="one above the newest version")
    add.add_argument("--sign-with", type=Path, metavar="KEY", help="sign what is published")
    add.add_argument("--encrypt-with", type=Path, metavar="KEY", help="encrypt the version's files")
    add.add_argument("--dry-run", action="store_true", help="say what would be written")
    ls = command("ls", _ls, "list models, versions, sizes, backends and manifests")
    ls.add_argument("name", nargs="?", default="")
    show = command("show", _show, "print a model's config with its defaults, and its files")
    show.add_argument("name")
    remove = command("rm", _rm, "remove a version of a model, or with --all the model")
    remove.add_argument("name")
    which = remove.add_mutually_exclusive_group()
    which.add_argument("--version", type=int, metavar="K")
    which.add_argument("--all", action="store_true", help="all versions, and the config")
    remove.add_argument("--dry-run", action="store_true", help="say what would be removed")
    diff = command(
        "diff", _diff, "compare two versions: NAME, NAME@VERSION or LOCATION/NAME@VERSION"
    )
    diff.add_argument("old")
    diff.add_argument("new")
    pull = command("pull", _pull, "copy a model into a folder and verify it")
    pull.add_argument("name")
    pull.add_argument("--version", type=int, metavar="K", help="default: all versions")
    pull.add_argument("--to", dest="folder", type=Path, required=True, metavar="DIR")
    sign = command("sign", _sign, "sign a model as it is in the repository")
    sign.add_argument("name")
    sign.add_argument("--with", dest="key", type=Path, required=True, metavar="KEY")
    meaning = "make a key to sign with, or with --encryption one to encrypt with"
    keygen = commands.add_parser("keygen", help=meaning, description=meaning)
    keygen.set_defaults(run=_keygen)
    keygen.add_argument("file", type=Path)
    keygen.add_argument("--encryption", action="store_true")
    return parser


def _store_of(given: argparse.Namespace, location: str = "") -> Store:
    """Open the repository that is named, or another, until the command ends."""
    location = location or given.location
    if not location:
        raise InvalidArgumentError(
            f"no repository is named; give --to or --at, or set {_REPOSITORY}"
        )
    store = open_store(location)
    given.opened.callback(store.close)
    return store


def _add(given: argparse.Namespace) -> int:
    store = _store_of(given)
    with local_source(given.path) as source:
        # Others may take the number that comes next.
        for _ in range(_ATTEMPTS - 1 if given.next else 0):
            with suppress(AlreadyExistsError):
                return _add_once(given, source, store)
        return _add_once(given, source, store)


def _add_once(given: argparse.Namespace, source: Path, store: Store) -> int:
    key_file = given.encrypt_with
    key = read_encryption_key(key_file) if key_file else b""
    signer = Signer(read_key_file(given.sign_with)) if given.sign_with else None
    addition = plan_addition(
        store, source, given.name, given.version, next_version=given.next, key_file=key_file
    )
    shared = addition.shared
    if signer is not None:
        shared = {**shared, **signed_shared(store, addition.former, shared, signer)}
    lines = [f"found {addition.title}"]
    if given.dry_run:
        lines += _what_is_written(store, addition, shared, is_signed=signer is not None)
    else:
        with progress(f"publishing {addition.name}"):
            manifest = _publish(store, addition, shared, key, signer)
        size_bytes = sum(file.size_bytes for file in manifest.files.values())
        where = f"{store.location}/{addition.name}/{addition.version}"
        lines.append(f"published {where}: {len(manifest.files)} files, {_size(size_bytes)}")
    for note in addition.notes:
        again = f", then 'manta model sign {addition.name}'" if "fill in" in note and signer else ""
        lines.append(f"note: {note}{again}")
    print("\n".join(lines))
    return 0


def _publish(
    store: Store,
    addition: Addition,
    shared: Mapping[str, Content],
    key: bytes,
    signer: Signer | None,
) -> Manifest:
    sign = None if signer is None else signer.sign
    with TemporaryDirectory(prefix="manta-publish-") as folder:
        files = seal(addition.files, key, Path(folder)) if key else addition.files
        return target_of(store).add(addition.name, addition.version, files, shared, sign)


def _what_is_written(
    store: Store, addition: Addition, shared: Mapping[str, Content], *, is_signed: bool
) -> list[str]:
    own = (MANIFEST_FILE, SIGNATURE_FILE) if is_signed else (MANIFEST_FILE,)
    paths = [f"{addition.version}/{path}" for path in (*addition.files, *own)]
    return [f"would write {store.location}/{addition.name}/{path}" for path in (*shared, *paths)]


def _sign(given: argparse.Namespace) -> int:
    store = _store_of(given)
    model = require_stored(store, given.name)
    for path in sign_stored(store, model, Signer(read_key_file(given.key))):
        print(f"signed {store.location}/{path}")
    return 0


def _keygen(given: argparse.Namespace) -> int:
    if given.encryption:
        make_encryption_key(given.file)
    else:
        public = make_signing_key(given.file)
        print(f"made {public}: servers know it by --trusted-keys")
    print(f"made {given.file}: keep it secret")
    return 0


def _ls(given: argparse.Namespace) -> int:
    store = _store_of(given)
    models = [require_stored(store, given.name)] if given.name else list_models(store)
    rows: list[tuple[str, ...]] = []
    for model in models:
        backend = backend_of(store, model)
        rows += [
            (
                model.name,
                str(version),
                _size(sum(file.size_bytes for file in model.version(version).values())),
                backend,
                state_of(store, model, version),
            )
            for version in model.versions
        ] or [(model.name, "-", _size(model.size_bytes), backend, "-")]
    print_table(("NAME", "VERSION", "SIZE", "BACKEND", "MANIFEST"), rows)
    return 0


def _show(given: argparse.Namespace) -> int:
    store = _store_of(given)
    model = require_stored(store, given.name)
    config, text = config_of(store, model)
    if not text:
        print("# There is no config.pbtxt: this is what the files and the defaults say.")
    print(to_pbtxt(config).rstrip())
    print()
    digests = _digests(store, model)
    for path, file in sorted(model.files.items()):
        digest = f"  sha256 {digests[path]}" if path in digests else ""
        print(f"# {path}  {file.size_bytes} bytes{digest}")
    return 0


def _digests(store: Store, model: StoredModel) -> dict[str, str]:
    """Return the digests that manifests tell, by path in the model's directory."""
    manifests = {version: manifest_of(store, model, version) for version in model.versions}
    return {
        f"{version}/{path}": file.sha256
        for version, manifest in manifests.items()
        if manifest is not None
        for path, file in manifest.files.items()
    }


def _rm(given: argparse.Namespace) -> int:
    store = _store_of(given)
    model = require_stored(store, given.name)
    version = None if given.all else given.version
    if version is None and not given.all:
        listed = ", ".join(map(str, model.versions)) or "none"
        raise InvalidArgumentError(
            f"this would remove all of model '{model.name}', versions {listed}; name one with "
            "--version, or give --all"
        )
    if version is not None:
        version = require_version(store, model, version)
        if model.versions == (version,):
            raise InvalidArgumentError(
                f"version {version} is the last one of model '{model.name}'; remove the model with "
                "--all"
            )
    what = model.name if version is None else f"{model.name}/{version}"
    files = model.files if version is None else model.version(version)
    if given.dry_run:
        for path in sorted(files):
            print(f"would remove {store.location}/{what}/{path}")
        return 0
    target_of(store).remove(model, version)
    print(f"removed {store.location}/{what}: {len(files)} files")
    return 0


def _diff(given: argparse.Namespace) -> int:
    old, new = (_side(given, text) for text in (given.old, given.new))
    lines = list(differences(old, new))
    for line in lines:
        print(line)
    return 1 if lines else 0


def _side(given: argparse.Namespace, text: str) -> Side:
    """Read ``NAME``, ``NAME@VERSION`` or either behind a location."""
    path, at, number = text.rpartition("@")
    has_version = bool(at) and number.isdecimal()
    where, slash, name = (path if has_version else text).rstrip("/").rpartition("/")
    store = _store_of(given, where or "/" if slash else "")
    model = require_stored(store, name)
    return Side(store, model, require_version(store, model, int(number) if has_version else None))


def _pull(given: argparse.Namespace) -> int:
    store = _store_of(given)
    model = require_stored(store, given.name)
    wanted = model.versions
    if given.version is not None or not wanted:
        wanted = (require_version(store, model, given.version),)
    target = pull_model(store, model, wanted, given.folder)
    manifests = [manifest_of(store, model, version) for version in wanted]
    verified = sum(manifest is not None for manifest in manifests)
    print(f"pulled {target}: {len(wanted)} versions, {verified} verified by their manifests")
    return 0


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= _UNIT and unit < len(_UNITS) - 1:
        size, unit = size / _UNIT, unit + 1
    return f"{size_bytes} B" if not unit else f"{size:.1f} {_UNITS[unit]}"
