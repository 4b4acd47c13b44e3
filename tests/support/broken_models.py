# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A generated model, and what is done to it."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """An empty directory."""


Entry = bytes | Link | Folder


@dataclass(frozen=True)
class Model:
    """A model's directory.

    Attributes:
        kind: What it began as.
        config: Text of its config.pbtxt; None for none.
        files: What else is there, by path.
        suffix: The end of its name.
        faults: What was done to it.
    """

    kind: str
    config: str | None
    files: Mapping[str, Entry] = field(default_factory=dict)
    suffix: str = ""
    faults: tuple[str, ...] = ()


Fault = Callable[[Model], Model]


def added(text: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "") + text + "\n")


def changed(old: str, new: str) -> Fault:
    return lambda model: replace(model, config=(model.config or "").replace(old, new))


def with_file(path: str, entry: Entry) -> Fault:
    return lambda model: replace(model, files={**model.files, path: entry})


def moved(old: str, new: str) -> Fault:
    """Move what lies below ``old`` to ``new``."""
    return lambda model: replace(
        model,
        files={
            new + path.removeprefix(old) if path.startswith(old) else path: entry
            for path, entry in model.files.items()
        },
    )


def content(change: Callable[[bytes], Entry]) -> Fault:
    """Change the model's own file."""
    return lambda model: replace(
        model,
        files={
            path: change(entry) if isinstance(entry, bytes) and "/model." in path else entry
            for path, entry in model.files.items()
        },
    )


def named(suffix: str) -> Fault:
    return lambda model: replace(model, suffix=suffix)


def parameter(key: str, text: str) -> Fault:
    return added(f'parameters {{ key: "{key}" value: {{ string_value: "{text}" }} }}')


# What may be wrong with a model's agents and manifests, or right.


def _agent(name: str, key: str = "", text: str = "") -> Fault:
    parameter = f'parameters {{ key: "{key}" value: "{text}" }}' if key else ""
    return added(f'model_repository_agents {{ agents {{ name: "{name}" {parameter} }} }}')


def _first_file(model: Model) -> tuple[str, bytes]:
    files = ((path, entry) for path, entry in model.files.items() if isinstance(entry, bytes))
    return next(files, ("1/none", b""))


def _checksum(model: Model) -> Model:
    path, content = _first_file(model)
    return _agent("checksum", f"SHA256:{path}", hashlib.sha256(content).hexdigest())(model)


def _manifest(change: Callable[[dict[str, object]], None] = lambda row: None) -> Fault:
    def put(model: Model) -> Model:
        path, content = _first_file(model)
        top, _, below = path.partition("/")
        row = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        change(row)
        text = json.dumps({"files": {below: row}}).encode()
        return with_file(f"{top}/manifest.json", text)(model)

    return put


def _archived(model: Model) -> Model:
    """Put the first file into an archive, and have it unpacked."""
    path, content = _first_file(model)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(path.rpartition("/")[2], content)
    files = {name: entry for name, entry in model.files.items() if name != path}
    files[f"{path.rpartition('/')[0]}/files.zip"] = made.getvalue()
    return _agent("unpack")(replace(model, files=files))


AGENT_FAULTS: dict[str, Fault] = {
    "no such agent": _agent("none"),
    "a checksum": _checksum,
    "a wrong checksum": _agent("checksum", "MD5:config.pbtxt", "0" * 32),
    "a checksum of no file": _agent("checksum", "MD5:1/missing", "0" * 32),
    "a checksum of no algorithm": _agent("checksum", "CRC:config.pbtxt", "0"),
    "a checksum elsewhere": _agent("checksum", "MD5:../part/config.pbtxt", "0" * 32),
    "a manifest": _manifest(),
    "a manifest of another content": _manifest(lambda row: row.update(sha256="0" * 64)),
    "a manifest of another size": _manifest(lambda row: row.update(size_bytes=77)),
    "a manifest that is none": with_file("1/manifest.json", b'{"files": []}'),
    "a manifest of the model": with_file("manifest.json", b'{"files": {}}'),
    "an archive": _archived,
    "no archive to unpack": _agent("unpack"),
    "no key to decrypt with": _agent("decrypt"),
    "no signature": _agent("verify"),
}
