# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches one file of a model into this node's cache, for a process that knows nothing of Manta.

Run as ``python -m cluster.repository.stores.fetch REQUEST``. The last line it prints is where the
file is or, when it exits with 1, why it cannot be fetched.
"""

import sys
from dataclasses import dataclass

import msgspec

from backends.api.errors import TritonError
from cluster.repository.stores.source import open_source
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import FileChangedError, ModelFile, ModelFiles, OpenSource
from deployments.model_files.layout import cache_folder


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Which file.

    Attributes:
        location: The model's directory.
        file: The file in it.
        directory: Folder of the node's cache; empty for this user's own.
        max_bytes: What it may hold; see `NodeCache`.
    """

    location: str
    file: ModelFile
    directory: str = ""
    max_bytes: int = 0

    @property
    def url(self) -> str:
        """The file, as messages name it."""
        return f"{self.location}/{self.file.path}"

    def as_json(self) -> str:
        """Render it as an argument."""
        return msgspec.json.encode(self).decode()


def fetch(request: FetchRequest, open_from: OpenSource = open_source) -> str:
    """Return the path of a file that was fetched.

    Raises:
        TritonError: It cannot be fetched, or there is no room.
        FileChangedError: It is another file by now.
        OSError: The cache cannot be written.
    """
    files = ModelFiles(request.location, (request.file,))
    with NodeCache(cache_folder(request.directory), request.max_bytes) as cache:
        return str(cache.ensure(files, open_from) / request.file.path)


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit status."""
    request = msgspec.json.decode(arguments[0], type=FetchRequest)
    try:
        print(fetch(request))  # noqa: T201 - its answer
    except (TritonError, FileChangedError, OSError) as error:
        why = error.message if isinstance(error, TritonError) else error
        print(f"'{request.url}' cannot be fetched: {why}")  # noqa: T201 - its answer too
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
