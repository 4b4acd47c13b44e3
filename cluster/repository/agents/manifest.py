# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent ``manifest``: files are as the manifests beside them say.

It runs for every model that has a manifest, whether its config names it or not.
"""

from pathlib import Path

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import read_manifest, verify_manifest, version_directories


class ManifestAgent:
    """Compares a model with the manifests it has; a directory without one is not looked at."""

    changes_files = False

    def act(self, action: Action, model: AgentModel) -> None:
        """See `RepositoryAgent`.

        Raises:
            InvalidArgumentError: A file is missing, differs, is not listed or cannot be read, or a
                manifest is none.
        """
        if action is not Action.LOAD:
            return
        root = model.directory
        try:
            for directory in (root, *version_directories(root)):
                where = name_of(model, directory)
                manifest = read_manifest(directory, where)
                if manifest is not None:
                    verify_manifest(directory, manifest, where, versions_apart=directory == root)
        except OSError as error:
            raise InvalidArgumentError(
                f"the files of model '{model.name}' cannot be compared with its manifest: "
                f"{error.filename}: {reason_of(error)}"
            ) from None


def name_of(model: AgentModel, directory: Path) -> str:
    """Say, for an error, what a directory with a manifest is."""
    version = "" if directory == model.directory else f"version {directory.name} of "
    return f"{version}model '{model.name}'"


AGENT = ManifestAgent()
