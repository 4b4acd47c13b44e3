# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model where a repository is expected: its folder, or a file of a framework.

KServe puts what a ``storageUri`` names, without its name, into /mnt/models. When that is a model
and not a repository, config.pbtxt and versions lie there themselves. Triton serves nothing then.
A file alone (``manta serve --model net.onnx``) gets a folder and, where one is needed, a config.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.api.errors import InvalidArgumentError, TritonError
from backends.config.pbtxt import MAX_CONFIG_BYTES, parse_pbtxt
from cluster.repository.version_policy import find_versions

if TYPE_CHECKING:
    from cluster.repository.model_formats import FoundModel

_CONFIG: Final = "config.pbtxt"
# Names of files that say nothing of the model; their folder's does.
_USUAL_STEMS: Final = frozenset({"model", "saved_model", "checkpoint", "xgboost"})
# What the folder of a model has at its top, and no repository.
_MARKS: Final = frozenset(
    {"saved_model.pb", "model.py", "openvino_tokenizer.xml", "model.safetensors"}
)
# KServe's name of what a pod serves; clients ask for the model by it.
_NAME_VARIABLE: Final = "INFERENCE_SERVICE_NAME"


@dataclass(slots=True, eq=False)
class SingleModels:
    """Repositories around models; they exist until `close`.

    Attributes:
        environment: Where a name is looked for when the model's config has none.
    """

    environment: Mapping[str, str]
    _folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    def repositories(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the repositories, those in the place of a model made for it.

        A model is called what its config says, else what KServe calls the service, else as its
        folder or file.

        Args:
            paths: Of repositories; of these only what is on this machine may be a model.

        Raises:
            InvalidArgumentError: A file is of no format that is known, or a config has to say what
                it does not tell.
        """
        return tuple(map(self._repository, paths))

    def close(self) -> None:
        """Remove what was made; the models' own files stay."""
        for folder in self._folders:
            folder.cleanup()
        self._folders.clear()

    def _repository(self, path: str) -> str:
        place = Path(path)
        if is_model(place):
            folder = self._new_folder()
            Path(folder, self._name(place)).symlink_to(place.absolute())
            return folder
        found = _loose_model(place)
        return path if found is None else self._around_files(place, found)

    def _new_folder(self) -> str:
        folder = tempfile.TemporaryDirectory(prefix="manta-repository-")
        self._folders.append(folder)
        return folder.name

    def _around_files(self, place: Path, found: "FoundModel") -> str:
        from cluster.repository.written_config import config_text  # noqa: PLC0415 - few need it

        if found.needs_tensors:
            raise InvalidArgumentError(
                f"'{place}' is {found.format.title}, which does not tell its inputs and outputs. "
                f"Publish it with 'manta model add {place} --name NAME --to models', fill in "
                "models/NAME/config.pbtxt, and serve 'models'"
            )
        folder = self._new_folder()
        model = Path(folder, self.environment.get(_NAME_VARIABLE, "") or _called(place))
        for name, source in found.files.items():
            target = model / "1" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source.absolute())
        if text := config_text(found):
            (model / _CONFIG).write_text(text)
        return folder

    def _name(self, path: Path) -> str:
        try:
            config = path / _CONFIG
            name = parse_pbtxt(config.read_text()[: MAX_CONFIG_BYTES + 1], str(config)).name
        except (OSError, UnicodeDecodeError, TritonError):
            # What is wrong with the config the load will say.
            name = ""
        name = name or self.environment.get(_NAME_VARIABLE, "") or path.absolute().name
        return name if Path(name).name == name else path.absolute().name


def is_model(path: Path) -> bool:
    """Whether a local folder is a model: it has a config, or versions without models in them."""
    try:
        if (path / _CONFIG).is_file():
            return True
        names = [each.name for each in path.iterdir() if each.is_dir()]
        versions, others = find_versions(name for name in names if not name.startswith("."))
        return bool(versions) and not others and not any(map(_is_in_repository, path.iterdir()))
    except OSError:
        return False


def refuse_files(paths: Sequence[str]) -> None:
    """Raise InvalidArgumentError for a file, which other nodes of a cluster do not have."""
    for path in paths:
        if Path(path).is_file():
            raise InvalidArgumentError(
                f"'{path}' is a file of this machine, which other nodes of the cluster do not have."
                f" Publish it with 'manta model add {path} --name NAME --to LOCATION', and give "
                "--model-repository LOCATION"
            )


def _loose_model(place: Path) -> "FoundModel | None":
    """Return a model whose files are in no folder of a version; None where there is none.

    Raises:
        InvalidArgumentError: What must be a model is of no format that is known.
    """
    try:
        names = frozenset(each.name for each in place.iterdir() if not each.name.startswith("."))
    except NotADirectoryError:
        names = _MARKS
    except OSError:
        return None
    must_be_one = bool(names & _MARKS)
    if not must_be_one and any((place / name).is_dir() for name in names):
        return None
    from cluster.repository.model_formats import find_model  # noqa: PLC0415 - few need it

    try:
        return find_model(place)
    except InvalidArgumentError:
        if must_be_one:
            raise
        return None


def _called(place: Path) -> str:
    """Return what a model is called whose files do not tell."""
    place = place.absolute()
    name = place.name if place.is_dir() else place.stem
    name = name.removesuffix(".savedmodel")
    return place.parent.name if name in _USUAL_STEMS else name


def _is_in_repository(path: Path) -> bool:
    """Whether a folder whose name is a number is a model of that name."""
    if not path.is_dir():
        return False
    versions, _ = find_versions(each.name for each in path.iterdir() if each.is_dir())
    return (path / _CONFIG).is_file() or bool(versions)
