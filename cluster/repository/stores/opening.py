# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Opens the store of a location; a cloud's library is imported with its first location."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cluster.repository.stores.contracts import Store
from cluster.repository.stores.credentials import Credentials
from cluster.repository.stores.fsspec_store import FsspecStore
from cluster.repository.stores.local import LocalStore
from cluster.repository.stores.location import Location, absolute, parse_location
from cluster.repository.stores.retry import DEFAULT_POLICY, RetryPolicy

# Where a scheme's client is opened; other schemes are fsspec's.
_OPENERS: Final[Mapping[str, tuple[str, str]]] = {
    "s3": ("cluster.repository.stores.s3", "open_s3"),
    "gs": ("cluster.repository.stores.gcs", "open_gcs"),
    "as": ("cluster.repository.stores.azure", "open_azure"),
    "hf": ("cluster.repository.stores.hub", "open_hub"),
    "mlflow": ("cluster.repository.stores.mlflow", "open_mlflow"),
}
_OTHER: Final = ("cluster.repository.stores.other", "open_other")


def open_store(
    location: str | Location,
    environ: Mapping[str, str] = os.environ,
    policy: RetryPolicy = DEFAULT_POLICY,
) -> Store:
    """Open a location's store; nothing is asked of it yet.

    Args:
        location: As the command line names it.
        environ: Where credentials are looked up.
        policy: How often what failed is tried again.

    Raises:
        TritonError: The location is none, or its scheme is unknown.
    """
    at = parse_location(location) if isinstance(location, str) else location
    if at.is_local:
        return LocalStore(absolute(at).path)
    return FsspecStore(at, _opener(at.scheme), Credentials(environ, read_credential_file), policy)


def read_credential_file(path: str) -> tuple[str, int]:
    """Return the credential file's text and what changes with it."""
    file = Path(path)
    return file.read_text(encoding="utf-8"), file.stat().st_mtime_ns


def _opener(scheme: str) -> Callable[..., Any]:
    module, name = _OPENERS.get(scheme, _OTHER)
    opener: Callable[..., Any] = getattr(import_module(module), name)
    return opener
