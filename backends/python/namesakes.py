# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Modules beside a model that are called like packages of this project.

Both are there, each for its own code: an import on behalf of the model's files finds the model's
module, any other ours. `sys.modules` has ours but for the time of such an import, and the model's
under names that we do not have. Without namesakes nothing is changed.

What looks into `sys.modules` by itself, as pickle does, finds ours first, which pass on what they
do not have.
"""

import builtins
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from backends.compiled_form import PACKAGES, ROOT


class Namesakes:
    """The modules of one model that have names of ours.

    Args:
        folders: Where the model's modules are, as on ``sys.path``.

    Attributes:
        tops: The names in doubt.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = list(folders)
        self._models_files = tuple(f"{each}/" for each in folders)
        self._our_files = tuple(f"{ROOT / each}/" for each in PACKAGES)
        self.tops = {
            each for each in PACKAGES if PathFinder.find_spec(each, list(folders)) is not None
        }
        self._names = [
            name
            for top in sorted(self.tops)
            for folder in folders
            for name in _modules(Path(folder, top), top)
        ]
        self._ours: dict[str, ModuleType] = {}
        self._models: dict[str, ModuleType] = {}
        # What is imported imports in turn.
        self._lock = threading.RLock()
        self._is_models = False

    def install(self) -> None:
        """Have imports ask whose they are, if a name is in doubt.

        Called while the folders are not on ``sys.path``, so that ours can be found.
        """
        if not self.tops:
            return
        for name in self.tops:
            importlib.import_module(name)
        plain_import, plain_import_module = builtins.__import__, importlib.import_module

        def import_name(
            name: str,
            globals: Mapping[str, object] | None = None,  # noqa: A002 - named by Python
            locals: Mapping[str, object] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            whole = (globals or {}).get("__package__") if level else name
            if _top(whole) not in self.tops:
                return plain_import(name, globals, locals, fromlist or (), level)
            with self._side_of(sys._getframe(1)):  # noqa: SLF001 - who imports is all that tells
                return plain_import(name, globals, locals, fromlist or (), level)

        def import_module(name: str, package: str | None = None) -> ModuleType:
            if _top(package if name.startswith(".") else name) not in self.tops:
                return plain_import_module(name, package)
            with self._side_of(sys._getframe(1)):  # noqa: SLF001
                return plain_import_module(name, package)

        builtins.__import__ = import_name
        importlib.import_module = import_module
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the model's module; before a folder without an ``__init__.py`` ours would come."""
        if not self._is_models or name not in self.tops:
            return None
        return PathFinder.find_spec(name, self._folders)

    @contextmanager
    def _side_of(self, frame: FrameType | None) -> Iterator[None]:
        with self._lock:
            before = self._is_models
            self._switch(is_models=self._is_for_model(frame))
            try:
                yield
            finally:
                self._switch(is_models=before)

    def _is_for_model(self, frame: FrameType | None) -> bool:
        """Whether the model's code comes before ours on the stack."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._models_files):
                return True
            if file.startswith(self._our_files):
                return False
            frame = frame.f_back
        return False

    def _switch(self, *, is_models: bool) -> None:
        """Have `sys.modules` be the model's or ours; the lock is held."""
        if is_models == self._is_models:
            return
        self._is_models = is_models
        leaving, coming = self._ours, self._models
        if not is_models:
            leaving, coming = coming, leaving
        for name in self._names:
            found = sys.modules.get(name)
            if found is not None and found is not coming.get(name):
                leaving[name] = found
            if name in coming:
                sys.modules[name] = coming[name]
            elif is_models:
                sys.modules.pop(name, None)
            if not is_models and name in self._ours and name in self._models:
                self._have_passed_on(self._ours[name], name)

    def _have_passed_on(self, ours: Any, name: str) -> None:
        if "__getattr__" not in vars(ours):
            ours.__getattr__ = _passed_on(name, self._models)


def _passed_on(name: str, models: Mapping[str, ModuleType]) -> Callable[[str], Any]:
    def find(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module '{name}' has no attribute '{attribute}'")
        return getattr(models[name], attribute)

    return find


def _top(name: object) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""


def _modules(path: Path, name: str) -> Iterator[str]:
    """Yield the dotted names of a module, and of what is in it if it is a package."""
    yield name
    if not path.is_dir():
        return
    for each in path.iterdir():
        stem = each.name.partition(".")[0]
        is_module = each.is_dir() or each.name.endswith(tuple(all_suffixes()))
        if is_module and stem.isidentifier() and not stem.startswith("__"):
            yield from _modules(path / stem, f"{name}.{stem}")
