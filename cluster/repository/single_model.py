# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A folder that is a model where a repository is expected.

KServe puts what a ``storageUri`` names, without its name, into /mnt/models. When that is a model
and not a repository, config.pbtxt and versions lie there themselves. Triton serves nothing then.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backends.api.errors import TritonError
from backends.config.pbtxt import MAX_CONFIG_BYTES, parse_pbtxt
from cluster.repository.version_policy import find_versions

_CONFIG: Final = "config.pbtxt"
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
        """Return the repositories, those in the place of a model's folder made for it.

        A model is called what its config says, else what KServe calls the service, else as its
        folder.

        Args:
            paths: Of repositories; of these only local folders may be models.
        """
        return tuple(self._around(path) if is_model(Path(path)) else path for path in paths)

    def close(self) -> None:
        """Remove what was made; the models' own files stay."""
        for folder in self._folders:
            folder.cleanup()
        self._folders.clear()

    def _around(self, path: str) -> str:
        folder = tempfile.TemporaryDirectory(prefix="manta-repository-")
        self._folders.append(folder)
        Path(folder.name, self._name(Path(path))).symlink_to(Path(path).absolute())
        return folder.name

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


def _is_in_repository(path: Path) -> bool:
    """Whether a folder whose name is a number is a model of that name."""
    if not path.is_dir():
        return False
    versions, _ = find_versions(each.name for each in path.iterdir() if each.is_dir())
    return (path / _CONFIG).is_file() or bool(versions)
